; E0315_divide.lisp:6:11: error[E0315]: reshape of [6] to [4, -1]: the elements do not divide
;     6 |   (return (reshape A 4 -1)))
;       |           ^^^^^^^^^^^^^^^^

(composite f ((A{f32}[6]) -> (Y))
  (return (reshape A 4 -1)))
