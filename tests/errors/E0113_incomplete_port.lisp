; E0113_incomplete_port.lisp:10:16: error[E0113]: the input `A` needs a type and sizes
;    10 | (composite f ((A) -> (Y{f32}[N]))
;       |                ^
;       = help: write A{f32}[M N], or A{T}[M N] for any type
; E0113_incomplete_port.lisp:13:16: error[E0113]: the input `A` needs its sizes
;    13 | (composite g ((A{f32}) -> (Y{f32}[N]))
;       |                ^^^^^^
;       = help: write A{f32}[] for a scalar

(composite f ((A) -> (Y{f32}[N]))
  (return A))

(composite g ((A{f32}) -> (Y{f32}[N]))
  (return A))
