; E0313_take_along.lisp:6:11: error[E0313]: the index has rank 1, the tensor rank 2
;     6 |   (return (take-along A I)))
;       |           ^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] I{i64}[M]) -> (Y{f32}[M N]))
  (return (take-along A I)))
