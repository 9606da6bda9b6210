; seed=100072 way=schedule passes 
; split_complex: kernels/names: kernel r_2: j.1 is used before it is declared (names are declared before use)
(composite r ((A0{f32}[M] B1{f32}[N M] C2{f32}[N]) -> (Y0{f32}[M N] Y1{f32}[M])) (dotimes (i m) (loop (j 0 n) (if (> (aref A0 i) -1.5) (setf (aref Y0 i j) 0.0)) (maxf (aref Y1 i) (min (if (> (aref C2 j) 2.0) -1.5 (aref B1 j i)) (aref Y0 1 j))))))
