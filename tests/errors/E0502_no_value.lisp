; E0502_no_value.lisp:6:18: error[E0502]: the keyword :axis has no value
;     6 |   (return (sum A :axis)))
;       |                  ^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :axis)))
