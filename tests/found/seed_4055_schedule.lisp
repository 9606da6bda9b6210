; seed=4055 way=schedule passes 
; split_complex: kernels/accumulation: kernel r_0: iterations of i.0.s.0 (parallel) accumulate into U0[i.1.s.0 + i.1.s.1 * 3, j] (a parallel axis accumulates nothing into a place that does not depend on it)
(composite r ((U0{f32}[M N]<1 0>) -> (U0)) (loop (i 0 m) (loop (j 1 -1 -1) (incf (aref U0 i j)))))
