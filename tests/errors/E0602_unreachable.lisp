; E0602_unreachable.lisp:7:3: error[E0602]: this is never reached: it stands behind `return`
;     7 |   (setf z B))
;       |   ^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return A)
  (setf z B))
