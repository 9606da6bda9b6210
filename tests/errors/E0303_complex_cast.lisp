; E0303_complex_cast.lisp:7:11: error[E0303]: cast from c64 to f32: a complex number has two parts
;     7 |   (return (cast f32 A)))
;       |           ^^^^^^^^^^^^
;       = help: (real z), (imag z) or (abs z)

(composite f ((A{c64}[N]) -> (Y{f32}[N]))
  (return (cast f32 A)))
