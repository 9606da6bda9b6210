; seed=112136 way=O2 passes 
; ValueError: not enough values to unpack (expected at least 2, got 0)
(composite r ((C2{f32}[N M] D3{f32}[K] U1{f32}[N K]) -> (Y0{f32}[M N] U1 Y2{f32}[M N K])) (dotimes (i m) (dotimes (j n) (setf (aref Y0 i j) 0.0))) (dotimes (i m) (dotimes (p k) (dotimes (j n) (maxf (aref U1 j p) (+ (- (aref C2 j i) (aref D3 p)) (if (< p 1) 0.0 p))) (incf (aref Y2 i j p))))))
