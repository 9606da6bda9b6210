; E0601_make_array.lisp:8:5: error[E0601]: this is not a `make-array`
;     8 |     (make-array v f32)
;       |     ^^^^^^^^^^^^^^^^^^
;       = expected: (make-array name dtype (sizes))

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (make-array v f32)
    (setf (aref Y i 0) 1)))
