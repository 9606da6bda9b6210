; E0307_never.lisp:5:47: error[E0307]: `N % 2 = 1` never holds
;     5 | (composite f ((A{f32}[N M](where N = (* 2 M), N % 2 = 1)) -> (Y{f32}[N M]))
;       |                                               ^^^^^^^^^

(composite f ((A{f32}[N M](where N = (* 2 M), N % 2 = 1)) -> (Y{f32}[N M]))
  (return A))
