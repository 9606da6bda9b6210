; E0501_aref.lisp:7:16: error[E0501]: `aref` takes a tensor and its indices
;     7 |   (return (+ A (aref))))
;       |                ^^^^^^
;       = expected: (aref T i…)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ A (aref))))
