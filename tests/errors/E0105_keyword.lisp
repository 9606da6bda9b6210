; E0105_keyword.lisp:6:18: error[E0105]: a keyword needs a name after the `:`
;     6 |   (return (sum A : 1)))
;       |                  ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (sum A : 1)))
