; E0601_setf_of_a_value.lisp:8:11: error[E0601]: `(+ i 1)` cannot be assigned
;     8 |     (setf (+ i 1) 2)))
;       |           ^^^^^^^
;       = expected: a name or (aref T i…)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (+ i 1) 2)))
