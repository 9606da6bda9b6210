; E0601_empty_loop.lisp:6:3: error[E0601]: the body of this `dotimes` is empty
;     6 |   (dotimes (i M))
;       |   ^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M))
  (return A))
