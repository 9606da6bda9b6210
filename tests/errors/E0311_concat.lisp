; E0311_concat.lisp:6:11: error[E0311]: axis 0 of the operands of concat: M and K are not provably equal
;     6 |   (return (concat A B :axis 1)))
;       |           ^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[K N]) -> (Y{f32}[M N]))
  (return (concat A B :axis 1)))
