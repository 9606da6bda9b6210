; seed=730 way=schedule passes 
; split_complex: kernels/allocations: kernel r_1: j1.mul in stack has the shape [M, K] (registers and the stack have constant extents; shared memory is allocated outside the region)
(composite r ((C2{i32}[K M]<1 0> I3{i64}[M] E4{i32}[M]) -> (Y0{i32}[K M])) (* (cast i32 (cumsum C2 :axis 1)) (gather E4 I3 :axis 0)))
