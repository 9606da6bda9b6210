; E0303_complex_cast_in_a_loop.lisp:8:22: error[E0303]: `cast` from c64 to f32: a complex number has two parts
;     8 |     (setf (aref Y i) (cast f32 (aref A i)))))
;       |                      ^^^^^^^^^^^^^^^^^^^^^
;       = help: (real z), (imag z) or (abs z)

(composite f ((A{c64}[N]) -> (Y{f32}[N]))
  (dotimes (i n)
    (setf (aref Y i) (cast f32 (aref A i)))))
