; seed=10506 way=schedule mismatch row schedule N=17 M=8
; U0[0, 0] is 0.0, expected 0.5 (error inf of the bound)
(composite r ((D3{f32}[N M] U0{f32}[M N]) -> (U0)) (dotimes (i m) (dotimes (j n) (setf (aref U0 i j) (max (if (>= (aref D3 j i) 0.0) 1.0 (if (< j 1) 0.0 j)) (+ j 0.5))))))
