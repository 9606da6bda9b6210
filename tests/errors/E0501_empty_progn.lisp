; E0501_empty_progn.lisp:6:11: error[E0501]: `progn` is empty
;     6 |   (return (progn)))
;       |           ^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (progn)))
