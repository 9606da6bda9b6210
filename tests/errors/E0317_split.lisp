; E0317_split.lisp:6:22: error[E0317]: only one piece of a split may be -1
;     6 |   (setf (values a b) (split A -1 -1))
;       |                      ^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf (values a b) (split A -1 -1))
  (return a))
