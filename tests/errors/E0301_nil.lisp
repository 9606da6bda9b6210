; E0301_nil.lisp:8:11: error[E0301]: the operands of add are f32 and bool
;     8 |   (return (+ A (if (= 1 2) 2))))
;       |           ^^^^^^^^^^^^^^^^^^^^
;       = note: dtypes are never converted silently
;       = help: try (cast f32 …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ A (if (= 1 2) 2))))
