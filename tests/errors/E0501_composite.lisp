; E0501_composite.lisp:7:11: error[E0501]: `linear` needs `W`
;     7 |   (return (linear A)))
;       |           ^^^^^^^^^^
;       = expected: (linear X W [B])

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (linear A)))
