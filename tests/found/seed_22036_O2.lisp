; seed=22036 where=cuda way=O2 passes 
; ValueError: zip() argument 2 is shorter than argument 1
(composite r ((A3{bf16}[K 8] A4{bf16}[K 8] A7{bf16}[K 8]<1 0>) -> (Y0{bf16}[K 8])) (setf v5 (einsum "id,jd->ij" A3 A4)) (setf v6 (exp (- v5 (max v5 :axis -1 :keepdims t)))) (slice (pad (matmul v6 A7) (0 0) (2 2)) _ (4 (+ 8 4))))
