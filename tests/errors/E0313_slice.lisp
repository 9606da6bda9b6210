; E0313_slice.lisp:6:11: error[E0313]: 3 positions for a tensor of rank 2
;     6 |   (return (slice A _ _ _)))
;       |           ^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (slice A _ _ _)))
