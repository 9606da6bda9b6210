; E0310_leading_axes.lisp:6:11: error[E0310]: the leading axes of `Y` are [1, batch], those of the inputs [batch]
;     6 |   (return (unsqueeze A :axis 0)))
;       |           ^^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[~ N]) -> (Y{f32}[~ N]))
  (return (unsqueeze A :axis 0)))
