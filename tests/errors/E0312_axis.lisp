; E0312_axis.lisp:7:11: error[E0312]: there is no axis 2
;     7 |   (return (sum A :axis 2)))
;       |           ^^^^^^^^^^^^^^^
;       = help: the operand has rank 2

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :axis 2)))
