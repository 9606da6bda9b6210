; E0201_operator_as_a_value.lisp:11:12: error[E0203]: unknown operator or composite `map`
;    11 |   (return (map sin A)))
;       |            ^^^
;       = help: did you mean `max`?
; E0201_operator_as_a_value.lisp:11:16: error[E0201]: unknown name `sin`
;    11 |   (return (map sin A)))
;       |                ^^^
;       = note: `sin` is an operator, which stands first: (sin …)

(composite f ((A{f32}[N]) -> (C{f32}[N]))
  (return (map sin A)))
