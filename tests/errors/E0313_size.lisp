; E0313_size.lisp:6:22: error[E0313]: a single integer is expected here, not a tensor of shape [M, N]
;     6 |   (return (reshape A B)))
;       |                      ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (reshape A B)))
