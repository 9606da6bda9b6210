; E0503_flag.lisp:6:28: error[E0503]: expected t or nil, found `1`
;     6 |   (return (sum A :keepdims 1)))
;       |                            ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :keepdims 1)))
