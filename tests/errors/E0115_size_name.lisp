; E0115_size_name.lisp:6:23: error[E0115]: `N*2` is not a size
;     6 | (composite f ((A{f32}[N*2]) -> (Y{f32}[N]))
;       |                       ^^^
;       = expected: an integer, a name, an expression such as (* 2 M), or ~

(composite f ((A{f32}[N*2]) -> (Y{f32}[N]))
  (return A))
