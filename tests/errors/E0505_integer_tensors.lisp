; E0505_integer_tensors.lisp:6:11: error[E0505]: `aref` with integer tensors needs an index for each of the 2 axes, found 1
;     6 |   (return (aref A I)))
;       |           ^^^^^^^^^^

(composite f ((A{f32}[M N] I{i64}[K]) -> (Y{f32}[K]))
  (return (aref A I)))
