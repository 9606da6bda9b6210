; E0204_twins.lisp:12:32: error[E0204]: the port `My_Port` and the port `my-port` differ only in case, - and _
;    12 | (composite f ((my-port{f32}[N] My_Port{f32}[N]) -> (Y{f32}[N]))
;       |                                ^^^^^^^^^^^^^^^
; E0204_twins.lisp:15:12: error[E0204]: there is another composite `f` in this file
;    15 | (composite F ((A{f32}[N] &key (a 1)) -> (Y{f32}[N]))
;       |            ^
;       = note: it is at line 12
; E0204_twins.lisp:15:31: error[E0204]: the parameter `a` has the name of another parameter or port
;    15 | (composite F ((A{f32}[N] &key (a 1)) -> (Y{f32}[N]))
;       |                               ^^^^^

(composite f ((my-port{f32}[N] My_Port{f32}[N]) -> (Y{f32}[N]))
  (return my-port))

(composite F ((A{f32}[N] &key (a 1)) -> (Y{f32}[N]))
  (return A))
