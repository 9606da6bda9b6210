; E0313_pad.lisp:6:11: error[E0313]: 1 pairs of widths for a tensor of rank 2
;     6 |   (return (pad A (1 1))))
;       |           ^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (pad A (1 1))))
