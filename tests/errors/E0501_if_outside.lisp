; E0501_if_outside.lisp:7:3: error[E0501]: `if` takes 2 or 3 operands, found 1
;     7 |   (if t)
;       |   ^^^^^^
;       = expected: (if condition then [else])

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (if t)
  (return A))
