; seed=231 way=O2 passes 
; split_columns: kernels/buffer-lists: kernel r_1 lists D3, parts; it touches D3, U1, parts (a kernel lists exactly the buffers it touches, ports in their order, then temps)
(composite r ((C2{f32}[N] D3{f32}[K M] U1{f32}[M]) -> (Y0{f32}[M N] U1)) (dotimes (i m) (dotimes (j n) (setf (aref Y0 i j) i))) (dotimes (i m) (set t1 0.0) (dotimes (p k) (incf t1 (aref D3 p i))) (incf (aref U1 i)) (incf (aref U1 i) (+ (aref U1 i) t1))))
