; E0604_output_has_no_value.lisp:6:14: error[E0604]: the output `Y` has no value here
;     6 |   (return (+ Y A)))
;       |              ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ Y A)))
