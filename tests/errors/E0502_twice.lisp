; E0502_twice.lisp:6:26: error[E0502]: the keyword :axis is given twice
;     6 |   (return (sum A :axis 0 :axis 1)))
;       |                          ^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :axis 0 :axis 1)))
