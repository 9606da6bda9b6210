; E0114_type_in_code.lisp:7:17: error[E0114]: unknown type `flaot32`
;     7 |   (return (cast flaot32 A)))
;       |                 ^^^^^^^
;       = help: did you mean `f32`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (cast flaot32 A)))
