; seed=3199 where=cuda way=O2 passes 
; the buffer acc15 needs a constant size on a GPU, not K
(composite r ((A12{f32}[M 2 K] A13{f32}[M K K] A15{f32}[M K (* 1 K)]<0 2 1>) -> (A12)) (setf v14 (einsum "fid,fjd->fij" A12 A13)) (slice (einsum "fij,fje->fie" (softmax v14) A15) _ _ (_ _ -1)))
