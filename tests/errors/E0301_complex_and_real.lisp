; E0301_complex_and_real.lisp:8:11: error[E0301]: the operands of mul are c64 and f32
;     8 |   (return (* A B)))
;       |           ^^^^^^^
;       = note: dtypes are never converted silently
;       = help: try (cast c64 …)

(composite f ((A{c64}[N] B{f32}[N]) -> (Y{c64}[N]))
  (return (* A B)))
