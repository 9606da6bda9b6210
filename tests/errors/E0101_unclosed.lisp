; E0101_unclosed.lisp:6:1: error[E0101]: `(` is never closed
;     6 | (composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
;       | ^
;       = expected: `)`

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf z (+ A B)
  (return z))
