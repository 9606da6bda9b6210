; seed=100641 way=schedule crash row schedule N=2 K=1 M=3
; SIGSEGV
(composite r ((A0{u8}[] I1{i64}[N] C2{f32}[K M]<1 0> I3{i64}[K] E4{f32}[K M N]) -> (Y0{i32}[N M] Y1{f32}[K M N])) (setf v0 (cast bool A0)) (return (cast i32 (cumsum (gather (cast i32 C2) I1 :axis 0) :axis 1)) (softmax (gather E4 I3 :axis 0))))
