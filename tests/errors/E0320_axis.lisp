; E0320_axis.lisp:7:24: error[E0320]: `M` must be known at compile time
;     7 |   (return (sum A :axis M)))
;       |                        ^
;       = expected: an integer literal or a parameter

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :axis M)))
