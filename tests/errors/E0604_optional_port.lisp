; E0604_optional_port.lisp:8:16: error[E0604]: the optional port `B` is not given
;     8 |   (return (+ A B)))
;       |                ^
;       = help: ask first: (if (given B) … …)
;       = note: called as `f` from E0604_optional_port.lisp:11:11

(composite f ((A{f32}[N] B{f32}[N]?) -> (Y{f32}[N]))
  (return (+ A B)))

(composite g ((A{f32}[N]) -> (Y{f32}[N]))
  (return (f A)))
