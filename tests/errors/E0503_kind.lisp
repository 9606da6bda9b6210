; E0503_kind.lisp:7:18: error[E0503]: expected pairs of sizes, found `(1 2 3)`
;     7 |   (return (pad A (1 2 3) (0 0))))
;       |                  ^^^^^^^
;       = expected: (before after) for each axis

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (pad A (1 2 3) (0 0))))
