; E0301_complex_into_real.lisp:8:5: error[E0301]: `Y` is f32, its new value c64
;     8 |     (setf (aref Y i) (* 2 (aref A i)))))
;       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: (real …), (imag …) or (abs …)

(composite f ((A{c64}[N]) -> (Y{f32}[N]))
  (dotimes (i n)
    (setf (aref Y i) (* 2 (aref A i)))))
