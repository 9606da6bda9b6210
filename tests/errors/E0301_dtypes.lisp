; E0301_dtypes.lisp:8:11: error[E0301]: the operands of add are f32 and f16
;     8 |   (return (+ A B)))
;       |           ^^^^^^^
;       = note: dtypes are never converted silently
;       = help: try (cast f32 …)

(composite f ((A{f32}[N] B{f16}[N]) -> (Y{f32}[N]))
  (return (+ A B)))
