; E0303_complex_maximum_in_a_loop.lisp:8:5: error[E0303]: `A` is c64, and complex numbers have no order
;     8 |     (maxf (aref A i) (aref B i))))
;       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: compare (abs z) or (real z)

(composite f ((A{c64}[N] B{c64}[N]) -> (A))
  (dotimes (i n)
    (maxf (aref A i) (aref B i))))
