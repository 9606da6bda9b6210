; E0303_complex_maximum.lisp:7:11: error[E0303]: max does not take c64
;     7 |   (return (max A)))
;       |           ^^^^^^^
;       = help: complex numbers have no order: compare (abs z) or (real z)

(composite f ((A{c64}[N]) -> (Y{c64}[]))
  (return (max A)))
