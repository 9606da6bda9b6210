; seed=10126 way=O2 mismatch row O2 N=9 K=3 M=2
; Y0[0, 7] is -1.9722802639007568, expected -6.849568419269022 (error 1.12e+05 of the bound)
(composite r ((A8{f32}[N K] A11{f32}[M (+ N 2)]) -> (Y0{f32}[M N]<1 0>)) (setf v9 (tanh (einsum "id,jd->ij" (full (M K) 1.0 :dtype f32) A8))) (setf v10 v9) (* (sum v10 :axis -1 :keepdims t) (- v9 (logsumexp v9 :axis -1 :keepdims t))))
