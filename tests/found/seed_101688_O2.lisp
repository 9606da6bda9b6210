; seed=101688 way=O2 passes 
; ValueError: not enough values to unpack (expected at least 2, got 0)
(composite r ((A0{f32}[M] B1{f32}[N K]) -> (Y0{f32}[M] Y1{f32}[M N])) (dotimes (i m) (dotimes (j n) (set t1 0.0) (dotimes (p k) (incf t1 (min (* (aref A0 i) (aref B1 j p)) (* j (cast f32 p))))) (maxf (aref Y0 i) t1) (setf (aref Y1 i j) i))))
