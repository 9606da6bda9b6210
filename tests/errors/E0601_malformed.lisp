; E0601_malformed.lisp:15:3: error[E0601]: this is not a `dotimes`
;    15 |   (dotimes (i)
;       |   ^^^^^^^^^^^^
;       = expected: (dotimes (v count) form…)
; E0601_malformed.lisp:17:9: error[E0601]: `x` is not a binding
;    17 |   (let (x 1)
;       |         ^
;       = expected: (name value)
; E0601_malformed.lisp:19:9: error[E0601]: `3` cannot be assigned
;    19 |   (setf 3 A)
;       |         ^
;       = expected: a name, (aref T i…) or (values a b)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i)
    (setf (aref Y i 0) 1))
  (let (x 1)
    (setf Y A))
  (setf 3 A)
  (return A))
