; E0315_reshape.lisp:7:11: error[E0315]: reshape of [M, N] to [M, N + 1]: M * N and M * N + M elements are not provably equal
;     7 |   (return (reshape A M (+ N 1))))
;       |           ^^^^^^^^^^^^^^^^^^^^^
;       = help: one extent may be -1

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (reshape A M (+ N 1))))
