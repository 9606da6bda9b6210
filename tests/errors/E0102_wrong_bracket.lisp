; E0102_wrong_bracket.lisp:7:17: error[E0102]: expected `)`, found `]`
;     7 |   (return (+ A B]))
;       |                 ^
;       = note: `(` was opened at line 7, column 11

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ A B]))
