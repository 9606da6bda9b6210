; E0301_type_variable.lisp:10:16: error[E0301]: `B` of `g` is {T} = f32, found f64
;    10 |   (return (g A B)))
;       |                ^
;       = help: (cast f32 …)

(composite g ((A{T}[N] B{T}[N]) -> (Y{T}[N]))
  (return (+ A B)))

(composite f ((A{f32}[N] B{f64}[N]) -> (Y{f32}[N]))
  (return (g A B)))
