; E0315_two_holes.lisp:6:11: error[E0315]: reshape to [-1, -1]: only one extent may be -1
;     6 |   (return (reshape A -1 -1)))
;       |           ^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (reshape A -1 -1)))
