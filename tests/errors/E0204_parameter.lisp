; E0204_parameter.lisp:5:31: error[E0204]: the parameter `a` has the name of another parameter or port
;     5 | (composite f ((A{f32}[N] &key (a 1)) -> (Y{f32}[N]))
;       |                               ^^^^^

(composite f ((A{f32}[N] &key (a 1)) -> (Y{f32}[N]))
  (return A))
