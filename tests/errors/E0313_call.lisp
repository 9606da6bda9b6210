; E0313_call.lisp:6:21: error[E0313]: `W` of `linear` has 2 axes, found 0
;     6 |   (return (linear A (sum B))))
;       |                     ^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (linear A (sum B))))
