; E0303_complex_of_f64.lisp:7:11: error[E0303]: a complex number is made of two f32, not of f64
;     7 |   (return (complex A 0)))
;       |           ^^^^^^^^^^^^^
;       = help: (cast f32 …)

(composite f ((A{f64}[N]) -> (Y{c64}[N]))
  (return (complex A 0)))
