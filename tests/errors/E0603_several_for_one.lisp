; E0603_several_for_one.lisp:7:11: error[E0603]: 2 values for one name
;     7 |   (setf z (split A 1 -1))
;       |           ^^^^^^^^^^^^^^
;       = help: (setf (values a b) …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf z (split A 1 -1))
  (return A))
