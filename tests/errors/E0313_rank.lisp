; E0313_rank.lisp:6:11: error[E0313]: the output `Y` has 2 axes, found 1
;     6 |   (return (sum A :axis 0)))
;       |           ^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :axis 0)))
