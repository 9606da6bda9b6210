; seed=104690 way=schedule time limit row schedule M=31 K=33
; no answer within 20 s
(composite r ((A0{f32}[M] B1{f32}[M] C2{f32}[K] D3{f32}[M K] E4{f32}[M]) -> (Y0{f32}[M])) (loop (i (- m 1) -1 -1) (set s1 (aref A0 i)) (set t2 0.0) (dotimes (p k) (incf t2 (if (> (aref D3 i p) -1.5) (aref B1 i) (aref C2 1)))) (setf (aref Y0 i) (aref E4 i))))
