; E0303_where.lisp:7:11: error[E0303]: a condition must be bool, found f32
;     7 |   (return (where A A B)))
;       |           ^^^^^^^^^^^^^
;       = help: compare it, as in (/= x 0)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (where A A B)))
