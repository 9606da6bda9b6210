; E0307_nothing_left.lisp:5:50: error[E0307]: with `N < 16` no number is left for `N`
;     5 | (composite f ((A{f32}[N](where N % 8 = 0, N > 8, N < 16)) -> (Y{f32}[N]))
;       |                                                  ^^^^^^

(composite f ((A{f32}[N](where N % 8 = 0, N > 8, N < 16)) -> (Y{f32}[N]))
  (return A))
