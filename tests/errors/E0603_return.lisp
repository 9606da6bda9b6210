; E0603_return.lisp:7:3: error[E0603]: `return` gives 2 values for 1 output
;     7 |   (return A B))
;       |   ^^^^^^^^^^^^
;       = expected: Y

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return A B))
