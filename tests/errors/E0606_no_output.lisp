; E0606_no_output.lisp:6:45: error[E0606]: the output `Y` is never given a value
;     6 | (composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
;       |                                             ^^^^^^^^^^^
;       = help: (return …) or (setf Y …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf z (+ A B))
  (setf w (* z z)))
