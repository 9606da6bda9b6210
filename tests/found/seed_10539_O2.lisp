; seed=10539 way=O2 passes 
; IndexError: tuple index out of range
(composite r ((A6{f32}[3 33] A9{f32}[33 1] ZN{bool}[N] ZK{bool}[K]) -> (Y0{f32}[3 1])) (setf v7 (einsum "id,jd->ij" A6 (full (33 33) 2.0 :dtype f32))) (setf v8 (exp (- v7 (max v7 :axis (-2 -1) :keepdims t)))) (matmul (* (sum v8 :axis (-2 -1) :keepdims t) (- v7 (logsumexp v7 :axis -1 :keepdims t))) A9))
