; seed=101151 way=O2 mismatch row O2 N=0 K=17 M=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((A0{i64}[N] I3{i64}[K] E4{i32}[M M]) -> (Y0{i32}[M])) (min (gather E4 I3 :axis 0) :axis 0))
