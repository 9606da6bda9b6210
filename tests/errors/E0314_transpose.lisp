; E0314_transpose.lisp:7:11: error[E0314]: [0, 0] is not a permutation of the 2 axes
;     7 |   (return (transpose A 0 0)))
;       |           ^^^^^^^^^^^^^^^^^
;       = help: the operand has shape [M, N]

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (transpose A 0 0)))
