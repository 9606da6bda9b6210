; E0303_division.lisp:7:11: error[E0303]: `/` is not defined on integers
;     7 |   (return (/ A B)))
;       |           ^^^^^^^
;       = help: `floordiv` rounds down; `(cast f32 x)` divides as floats

(composite f ((A{i32}[N] B{i32}[N]) -> (Y{i32}[N]))
  (return (/ A B)))
