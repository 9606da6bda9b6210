; E0303_complex_order.lisp:7:11: error[E0303]: less_than does not take c64
;     7 |   (return (< A B)))
;       |           ^^^^^^^
;       = help: complex numbers have no order: compare (abs z) or (real z)

(composite f ((A{c64}[N] B{c64}[N]) -> (Y{bool}[N]))
  (return (< A B)))
