; E0122_header.lisp:17:14: error[E0122]: `->` is missing between inputs and outputs
;    17 | (composite f ((A{f32}[N]) (Y{f32}[N]))
;       |              ^^^^^^^^^^^^^^^^^^^^^^^^^
;       = expected: ((A{f32}[N]) -> (B{f32}[N]))
; E0122_header.lisp:20:1: error[E0122]: expected (composite …), found `(define g 1)`
;    20 | (define g 1)
;       | ^^^^^^^^^^^^
; E0122_header.lisp:22:12: error[E0122]: the ports are missing
;    22 | (composite h)
;       |            ^
;       = expected: (composite NAME ((A{f32}[N]) -> (B{f32}[N])) form…)
; E0122_header.lisp:24:31: error[E0122]: `axis` is not a parameter
;    24 | (composite k ((A{f32}[N] &key axis) -> (Y{f32}[N]))
;       |                               ^^^^
;       = expected: (NAME default), as in &key (axis -1)

(composite f ((A{f32}[N]) (Y{f32}[N]))
  (return A))

(define g 1)

(composite h)

(composite k ((A{f32}[N] &key axis) -> (Y{f32}[N]))
  (return A))
