; seed=109967 way=O2 mismatch row O2 N=31 K=0 M=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((I0{i64}[N] B1{bool}[K M K]) -> (Y0{bool}[M K])) (all (gather B1 I0 :axis 0) :axis 0))
