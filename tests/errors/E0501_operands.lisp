; E0501_operands.lisp:7:11: error[E0501]: `where` takes 3 operands, found 1
;     7 |   (return (where A)))
;       |           ^^^^^^^^^
;       = expected: (where condition a b)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (where A)))
