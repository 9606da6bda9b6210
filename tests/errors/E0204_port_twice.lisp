; E0204_port_twice.lisp:5:36: error[E0204]: the port `A` is there twice
;     5 | (composite f ((A{f32}[N] B{f32}[N] A{f32}[N]) -> (Y{f32}[N]))
;       |                                    ^^^^^^^^^

(composite f ((A{f32}[N] B{f32}[N] A{f32}[N]) -> (Y{f32}[N]))
  (return A))
