; seed=14960 where=x86-64-v3 way=O2 passes 
; ValueError: 1 is not in list
(composite r ((A9{bf16}[1 16 1]<2 1 0> A11{bf16}[1 1] A14{bf16}[1 16 13] A15{i32}[16] A18{bf16}[13 1 13 1]<2 3 0 1> ZM{bool}[M] ZN{bool}[N] ZK{bool}[K]) -> (Y0{bf16}[1] Y1{bf16}[1 1 1] Y2{bf16}[1 13])) (setf w4 (zeros (1) :dtype bf16)) (setf v12 (einsum "fid,fjd->fij" (full (1 1 1) 2.0 :dtype bf16) A9)) (setf v13 (exp (- v12 (max v12 :axis -1 :keepdims t)))) (setf v16 (einsum "fid,fjd->fij" A14 A14)) (setf v17 v16) (return w4 (matmul (- v13 (softmax (* 0.5 v12))) (matmul v17 A9)) (max A18 :axis (0 3))))
