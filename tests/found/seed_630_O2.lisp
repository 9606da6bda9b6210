; seed=630 way=O2 passes 
; schedule: kernels/in-place: kernel r_0: iterations of i (parallel) store U0[p.0 * 1024 + (p.1.0 * 16 + p.1.1)] and read U0[p.0 * 1024 + p.1.t] (what runs at the same time reads an updated buffer at the index it stores)
(composite r ((U0{f32}[K] U1{f32}[M N K]) -> (U0)) (dotimes (i m) (dotimes (p k) (loop (j 0 n) (if (= i p) (incf (aref U0 p) (aref U0 p)))))))
