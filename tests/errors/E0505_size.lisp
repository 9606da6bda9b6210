; E0505_size.lisp:6:9: error[E0505]: `M` has 0 axes, found 1 index
;     6 |   (setf (aref M 0) 1)
;       |         ^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf (aref M 0) 1)
  (return A))
