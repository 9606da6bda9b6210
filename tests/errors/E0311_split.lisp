; E0311_split.lisp:6:22: error[E0311]: the pieces of a split and its axis: 3 and N are not provably equal
;     6 |   (setf (values a b) (split A 1 2 :axis 1))
;       |                      ^^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf (values a b) (split A 1 2 :axis 1))
  (return A))
