; E0503_no_operator.lisp:6:11: error[E0503]: expected an operator, found `1`
;     6 |   (return (1 A B)))
;       |           ^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (1 A B)))
