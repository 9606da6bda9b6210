; E0114_type.lisp:11:18: error[E0114]: unknown type `flaot`
;    11 | (composite f ((A{flaot}[N]) -> (Y{f32}[N]))
;       |                  ^^^^^
;       = help: did you mean `float`?
;       = expected: a dtype (f64 f32 f16 bf16 i64 … bool), or a type variable (one capital letter)
; E0114_type.lisp:14:17: error[E0114]: `{f32 f64}` is not a type
;    14 | (composite g ((A{f32 f64}[N]) -> (Y{f32}[N]))
;       |                 ^^^^^^^^^
;       = expected: a dtype such as {f32}, or a type variable such as {T}

(composite f ((A{flaot}[N]) -> (Y{f32}[N]))
  (return A))

(composite g ((A{f32 f64}[N]) -> (Y{f32}[N]))
  (return A))
