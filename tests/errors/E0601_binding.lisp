; E0601_binding.lisp:7:17: error[E0601]: `a` is not a binding
;     7 |   (return (let (a 3) (+ a A))))
;       |                 ^
;       = expected: (name value)

(composite f ((A{f32}[M N]) -> (Y{f32}[M N]))
  (return (let (a 3) (+ a A))))
