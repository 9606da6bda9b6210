; E0115_size_expression.lisp:6:25: error[E0115]: `(sqrt N)` is not a size expression
;     6 | (composite f ((A{f32}[N (sqrt N)]) -> (Y{f32}[N]))
;       |                         ^^^^^^^^
;       = expected: integers, sizes and (+ | - | * | floordiv | mod | max | min …)

(composite f ((A{f32}[N (sqrt N)]) -> (Y{f32}[N]))
  (return A))
