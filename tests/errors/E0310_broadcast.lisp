; E0310_broadcast.lisp:6:11: error[E0310]: shapes [M, N] and [N, M] do not broadcast: M and N are not provably equal at axis -2
;     6 |   (return (+ A B)))
;       |           ^^^^^^^

(composite f ((A{f32}[M N] B{f32}[N M]) -> (Y{f32}[M N]))
  (return (+ A B)))
