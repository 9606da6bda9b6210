; seed=112253 way=O2 mismatch row O2 M=0 K=9 N=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((I0{i64}[M] I1{i64}[K] C2{bool}[M N]) -> (Y0{bool}[M N])) (gather (gather C2 I1 :axis 0) I0 :axis 0))
