; E0112_port.lisp:6:16: error[E0112]: expected the name of a port, found `3`
;     6 | (composite f ((3{f32}[N] A{f32}[N]+) -> (Y{f32}[N]))
;       |                ^
;       = help: a port is written NAME{TYPE}[SIZES], as in A{f32}[M N]

(composite f ((3{f32}[N] A{f32}[N]+) -> (Y{f32}[N]))
  (return A))
