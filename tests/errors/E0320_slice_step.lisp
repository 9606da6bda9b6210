; E0320_slice_step.lisp:6:11: error[E0320]: the step M of a slice is not a literal
;     6 |   (return (slice A (0 10 M) _)))
;       |           ^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (slice A (0 10 M) _)))
