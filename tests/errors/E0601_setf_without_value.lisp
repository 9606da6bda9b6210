; E0601_setf_without_value.lisp:7:3: error[E0601]: this is not an assignment
;     7 |   (setf z)
;       |   ^^^^^^^^
;       = expected: (setf place value)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf z)
  (return A))
