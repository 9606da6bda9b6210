; seed=26 way=schedule passes 
; split_complex: kernels/vectors: kernel r_0: the vector axis j.1.1 runs from 0 to max(0, min(1, N - j.0 * 2 - j.1.0)) (a vector axis has a constant extent)
(composite r ((A0{f64}[N K M]) -> (Y0{f64}[M N])) (dotimes (j n) (dotimes (i m) (incf (aref Y0 i j)))))
