; E0303_complex_rounded.lisp:7:11: error[E0303]: floor does not take c64
;     7 |   (return (floor A)))
;       |           ^^^^^^^^^
;       = help: take (real z), (imag z) or (abs z)

(composite f ((A{c64}[N]) -> (Y{c64}[N]))
  (return (floor A)))
