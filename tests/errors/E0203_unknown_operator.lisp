; E0203_unknown_operator.lisp:7:12: error[E0203]: unknown operator or composite `matmull`
;     7 |   (return (matmull A B)))
;       |            ^^^^^^^
;       = help: did you mean `matmul`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (matmull A B)))
