; E0603_values.lisp:6:9: error[E0603]: 3 names for 2 values
;     6 |   (setf (values a b c) (split A M (- N M) :axis 1))
;       |         ^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf (values a b c) (split A M (- N M) :axis 1))
  (return (+ A B)))
