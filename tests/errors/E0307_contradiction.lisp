; E0307_contradiction.lisp:6:41: error[E0307]: `N < M` never holds
;     6 | (composite f ((A{f32}[M N](where M < N, N < M)) -> (Y{f32}[M N]))
;       |                                         ^^^^^
;       = note: the constraints before it say otherwise

(composite f ((A{f32}[M N](where M < N, N < M)) -> (Y{f32}[M N]))
  (return A))
