; seed=537 way=schedule passes 
; split_complex: kernels/accumulation: kernel r_0: iterations of i.0 (parallel) accumulate into U0[i.1.mul[] + i.1] (a parallel axis accumulates nothing into a place that does not depend on it)
(composite r ((U0{f64}[M]) -> (U0)) (dotimes (i m) (incf (aref U0 i) i)))
