; E0601_maxf.lisp:7:3: error[E0601]: this is no `maxf`
;     7 |   (maxf)
;       |   ^^^^^^
;       = expected: (maxf place e)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (maxf)
  (return A))
