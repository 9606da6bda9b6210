; E0303_division_in_a_size.lisp:7:22: error[E0303]: `/` is not defined on integers
;     7 |   (return (reshape A (/ M 2) N)))
;       |                      ^^^^^^^
;       = help: `floordiv` rounds down; `(cast f32 x)` divides as floats

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (reshape A (/ M 2) N)))
