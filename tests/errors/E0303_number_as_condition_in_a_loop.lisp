; E0303_number_as_condition_in_a_loop.lisp:8:9: error[E0303]: a condition must be bool, found f32
;     8 |     (if (aref A i 0) (setf (aref Y i 0) 1))))
;       |         ^^^^^^^^^^^^
;       = help: compare it, as in (/= x 0)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (if (aref A i 0) (setf (aref Y i 0) 1))))
