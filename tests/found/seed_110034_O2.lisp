; seed=110034 way=O2 mismatch row O2 M=3 K=2 N=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((A0{f32}[M] I1{i64}[K] I2{i64}[N] D3{f16}[M N]) -> (Y0{f16}[N])) (sum (gather (gather D3 I2 :axis 0) I1 :axis 0) :axis 0))
