; E0312_axis_twice.lisp:6:11: error[E0312]: an axis is given twice in [0, 0]
;     6 |   (return (sum A :axis (0 0))))
;       |           ^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :axis (0 0))))
