; E0117_missing.lisp:6:26: error[E0117]: a constraint is missing
;     6 | (composite f ((A{f32}[N](where N > 1,, N < 5)) -> (Y{f32}[N]))
;       |                          ^^^^^
;       = expected: (where M = 1, N < 4096)

(composite f ((A{f32}[N](where N > 1,, N < 5)) -> (Y{f32}[N]))
  (return A))
