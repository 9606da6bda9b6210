; E0315_zero.lisp:6:11: error[E0315]: reshape of [M, N] to [0, -1]: an extent is 0, so -1 stands for no one number
;     6 |   (return (reshape A 0 -1)))
;       |           ^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (reshape A 0 -1)))
