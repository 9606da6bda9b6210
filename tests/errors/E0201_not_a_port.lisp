; E0201_not_a_port.lisp:6:22: error[E0201]: `C` is not a port
;     6 |   (return (if (given C) A B)))
;       |                      ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (if (given C) A B)))
