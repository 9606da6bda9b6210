; E0501_given.lisp:7:15: error[E0501]: `given` takes the name of a port
;     7 |   (return (if (given A B) A B)))
;       |               ^^^^^^^^^^^
;       = expected: (given B)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (if (given A B) A B)))
