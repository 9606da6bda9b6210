; E0601_setf.lisp:8:5: error[E0601]: this is not an assignment
;     8 |     (setf (aref Y i 0))))
;       |     ^^^^^^^^^^^^^^^^^^^
;       = expected: (setf place value)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0))))
