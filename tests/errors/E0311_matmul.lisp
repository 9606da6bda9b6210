; E0311_matmul.lisp:6:11: error[E0311]: the inner extents of matmul of [M, K] and [N, K]: K and N are not provably equal
;     6 |   (return (matmul A B)))
;       |           ^^^^^^^^^^^^

(composite f ((A{f32}[M K] B{f32}[N K]) -> Y)
  (return (matmul A B)))
