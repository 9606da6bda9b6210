; E0503_no_leading_axes.lisp:6:22: error[E0503]: `~` stands for nothing here: no port of this composite has it
;     6 |   (return (reshape A ~ N)))
;       |                      ^

(composite f ((A{f32}[M N]) -> (Y{f32}[M N]))
  (return (reshape A ~ N)))
