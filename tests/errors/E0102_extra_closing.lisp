; E0102_extra_closing.lisp:6:20: error[E0102]: `)` closes nothing
;     6 |   (return (+ A B))))
;       |                    ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ A B))))
