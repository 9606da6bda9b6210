; E0307_nothing_left.lisp:5:47: error[E0307]: with `N % 8 = 0` no number is left for `N`
;     5 | (composite f ((A{f32}[N](where N > 8, N < 16, N % 8 = 0)) -> (Y{f32}[N]))
;       |                                               ^^^^^^^^^

(composite f ((A{f32}[N](where N > 8, N < 16, N % 8 = 0)) -> (Y{f32}[N]))
  (return A))
