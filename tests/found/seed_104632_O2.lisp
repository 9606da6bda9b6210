; seed=104632 way=O2 passes 
; schedule: kernels/buffer-lists: kernel r_0 lists D3, I5, Y0; it touches I5, Y0 (a kernel lists exactly the buffers it touches, ports in their order, then temps)
(composite r ((D3{f16}[K N] I5{i64}[K] G6{i64}[N N]<1 0>) -> (Y0{i64}[K N])) (* (cast i64 D3) (gather (- G6 G6) I5 :axis 0)))
