; seed=111962 way=O2 mismatch row O2 M=2 N=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((I2{i64}[M] D3{f32}[N N]<1 0>) -> (Y0{f32}[N M]<1 0>)) (transpose (gather D3 I2 :axis 0)))
