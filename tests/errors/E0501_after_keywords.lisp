; E0501_after_keywords.lisp:7:24: error[E0501]: an operand after the keywords
;     7 |   (return (sum :axis 1 A)))
;       |                        ^
;       = help: operands come first: (sum … :axis …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum :axis 1 A)))
