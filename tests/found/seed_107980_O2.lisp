; seed=107980 way=O2 mismatch row O2 M=3 K=0 N=33
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((I1{i64}[M] C2{bool}[K K N]) -> (Y1{bool}[K N])) (all (gather C2 I1 :axis 0) :axis 0))
