; E0317_slice.lisp:6:11: error[E0317]: the step of a slice is 0
;     6 |   (return (slice A (0 10 0) _)))
;       |           ^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (slice A (0 10 0) _)))
