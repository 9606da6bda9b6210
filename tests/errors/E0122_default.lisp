; E0122_default.lisp:6:38: error[E0122]: `(+ 1 2)` cannot be a default
;     6 | (composite f ((A{f32}[N] &key (scale (+ 1 2))) -> (Y{f32}[N]))
;       |                                      ^^^^^^^
;       = expected: a number, t, nil, a string, a dtype or a list of integers

(composite f ((A{f32}[N] &key (scale (+ 1 2))) -> (Y{f32}[N]))
  (return A))
