; seed=101897 way=schedule crash row schedule N=15 M=7 K=3
; SIGSEGV
(composite r ((A0{f32}[N] B1{f32}[M K] C2{f32}[M] U0{f32}[M N]) -> (U0)) (loop (i 1 -1 -1) (loop (j (- n 1) -1 -1) (set s1 (aref A0 j)) (set t2 0.0) (dotimes (p k) (maxf t2 (aref B1 i p))) (setf (aref U0 i 1) (aref C2 i)))))
