; E0112_mark.lisp:6:25: error[E0112]: `!` does not belong to a port
;     6 | (composite f ((A{f32}[N]! B{f32}[N]) -> (Y{f32}[N]))
;       |                         ^
;       = expected: NAME{TYPE}[SIZES]<ORDER>(WHERE), then perhaps `?`

(composite f ((A{f32}[N]! B{f32}[N]) -> (Y{f32}[N]))
  (return A))
