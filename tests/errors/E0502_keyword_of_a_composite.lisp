; E0502_keyword_of_a_composite.lisp:7:22: error[E0502]: `softmax` has no keyword :axes
;     7 |   (return (softmax A :axes 1)))
;       |                      ^^^^^
;       = help: did you mean `:axis`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (softmax A :axes 1)))
