; E0501_too_many_operands_of_a_composite.lisp:10:11: error[E0501]: `halves` takes 1 operand, found 2
;    10 |   (return (halves A B)))
;       |           ^^^^^^^^^^^^
;       = expected: (halves X)

(composite halves ((X{T}[N](where N % 2 = 0)) -> (Y{T}[N]))
  (return X))

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (halves A B)))
