; E0104_float_too_large.lisp:7:16: error[E0104]: the number 1e999 is too large for f64
;     7 |   (return (* A 1e999)))
;       |                ^^^^^
;       = help: write `inf` for infinity

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (* A 1e999)))
