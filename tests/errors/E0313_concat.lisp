; E0313_concat.lisp:6:11: error[E0313]: concat of shapes [M, N] and [N]: the ranks differ
;     6 |   (return (concat A (sum B :axis 0))))
;       |           ^^^^^^^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (concat A (sum B :axis 0))))
