; E0303_complex_order_in_a_loop.lisp:8:22: error[E0303]: `<=` is not defined on c64
;     8 |     (setf (aref Y i) (<= (aref A i) (aref B i)))))
;       |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: complex numbers have no order: compare (abs z) or (real z)

(composite f ((A{c64}[N] B{c64}[N]) -> (Y{bool}[N]))
  (dotimes (i n)
    (setf (aref Y i) (<= (aref A i) (aref B i)))))
