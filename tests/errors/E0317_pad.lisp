; E0317_pad.lisp:6:11: error[E0317]: a negative padding -1 on axis 0
;     6 |   (return (pad A (-1 1) (0 0))))
;       |           ^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (pad A (-1 1) (0 0))))
