; seed=111014 way=O2 mismatch row O2 N=15 K=0 M=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((I1{i64}[N] C2{i32}[K M]) -> (Y0{i32}[M])) (cast i32 (sum (gather C2 I1 :axis 0) :axis 0)))
