; seed=100126 way=schedule passes 
; split_complex: kernels/allocations: kernel r_1: C2.packed is shared and allocated inside a region, by every thread (registers and the stack have constant extents; shared memory is allocated outside the region)
(composite r ((C2{i32}[N K] D3{i32}[N K]) -> (Y1{bool}[N K])) (< C2 (cummin D3 :axis 0)))
