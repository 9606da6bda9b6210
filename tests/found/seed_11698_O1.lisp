; seed=11698 where=x86-64-v3 way=O1 mismatch row O1 N=5 K=0 M=5
; returned 3 (index out of range)
(composite r ((A3{f16}[N] I11{i32}[N] A12{f16}[K K N] A15{f16}[N N K]<1 2 0> ZM{bool}[M]) -> (A3)) (einsum "akl,lak->a" (gather A12 I11 :axis 0) A15))
