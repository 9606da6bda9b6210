; E0306_elements.lisp:6:16: error[E0306]: a tensor of 1000000000000000000 elements
;     6 | (composite f ((A{f32}[1000000000 1000000000 N]) -> (Y{f32}[N]))
;       |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = note: at most 2^48 are allowed

(composite f ((A{f32}[1000000000 1000000000 N]) -> (Y{f32}[N]))
  (return (sum A :axis (0 1))))
