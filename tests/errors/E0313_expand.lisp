; E0313_expand.lisp:6:11: error[E0313]: rank 2 does not expand to rank 1
;     6 |   (return (expand A N)))
;       |           ^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (expand A N)))
