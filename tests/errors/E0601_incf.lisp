; E0601_incf.lisp:8:5: error[E0601]: this is no `mulcf`
;     8 |     (mulcf (aref Y i 0))))
;       |     ^^^^^^^^^^^^^^^^^^^^
;       = expected: (mulcf place e)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (mulcf (aref Y i 0))))
