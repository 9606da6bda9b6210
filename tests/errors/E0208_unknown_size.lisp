; E0208_unknown_size.lisp:6:34: error[E0208]: nothing says what the size `K` is
;     6 | (composite f ((A{f32}[M N](where K < 10)) -> (Y{f32}[M N]))
;       |                                  ^
;       = help: it stands in no input; an equation with the name alone on one side would define it, or an input of that size that is updated in place

(composite f ((A{f32}[M N](where K < 10)) -> (Y{f32}[M N]))
  (return A))
