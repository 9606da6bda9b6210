; E0204_size_like_a_port.lisp:6:23: error[E0204]: the size `A` has the name of a port
;     6 | (composite f ((A{f32}[A B]) -> (Y{f32}[A B]))
;       |                       ^
;       = help: both are parameters of the emitted function, and keywords in Python

(composite f ((A{f32}[A B]) -> (Y{f32}[A B]))
  (return (+ A 1.0)))
