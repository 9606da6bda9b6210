; E0601_let.lisp:7:11: error[E0601]: this is not a `let`
;     7 |   (return (let 3 A)))
;       |           ^^^^^^^^^
;       = expected: (let ((name value)…) form…)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (let 3 A)))
