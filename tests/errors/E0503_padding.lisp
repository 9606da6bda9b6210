; E0503_padding.lisp:6:37: error[E0503]: expected a number, found `M`
;     6 |   (return (pad A (1 1) (0 0) :value M)))
;       |                                     ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (pad A (1 1) (0 0) :value M)))
