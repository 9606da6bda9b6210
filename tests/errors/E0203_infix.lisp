; E0203_infix.lisp:11:12: error[E0203]: unknown operator or composite `a`
;    11 |   (return (a + 1)))
;       |            ^
;       = note: `A` is a name: what stands first is an operator, as in (+ A …) or (aref T i)
; E0203_infix.lisp:11:14: error[E0201]: unknown name `+`
;    11 |   (return (a + 1)))
;       |              ^
;       = note: `+` is an operator, which stands first: (+ …)

(composite f ((A{f32}[N]) -> (C{f32}[N]))
  (return (a + 1)))
