; E0310_expand.lisp:6:11: error[E0310]: shapes [M, N] and [M, M] do not broadcast: N and M are not provably equal at axis -1
;     6 |   (return (expand A M M)))
;       |           ^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (expand A M M)))
