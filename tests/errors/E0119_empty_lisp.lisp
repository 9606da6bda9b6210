; E0119_empty_lisp.lisp:6:12: error[E0119]: the code is empty
;     6 | (composite f ((A{f32}[N]) -> (Y{f32}[N])))
;       |            ^
;       = help: `(return A)` gives a port as it is

(composite f ((A{f32}[N]) -> (Y{f32}[N])))
