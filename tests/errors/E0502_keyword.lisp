; E0502_keyword.lisp:7:18: error[E0502]: `sum` has no keyword :axs
;     7 |   (return (sum A :axs 1)))
;       |                  ^^^^
;       = help: did you mean `:axis`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A :axs 1)))
