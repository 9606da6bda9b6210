; seed=107700 way=O0 mismatch row O0 K=16 N=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((A0{f32}[K N]<1 0> I1{i64}[K] C2{f32}[N N]) -> (Y0{f32}[K N]<1 0>)) (where (< A0 A0) (gather C2 I1 :axis 0) A0))
