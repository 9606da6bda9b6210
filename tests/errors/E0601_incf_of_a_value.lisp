; E0601_incf_of_a_value.lisp:8:11: error[E0601]: `3` cannot be assigned
;     8 |     (incf 3)))
;       |           ^
;       = expected: a name or (aref T i…)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (incf 3)))
