; E0313_matmul.lisp:7:16: error[E0313]: matmul of a scalar
;     7 |   (return (+ A (matmul 2 B))))
;       |                ^^^^^^^^^^^^
;       = help: use * for scalars

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ A (matmul 2 B))))
