; E0307_impossible.lisp:5:32: error[E0307]: `4 % 3 = 0` does not hold: 1 = 0
;     5 | (composite f ((A{f32}[4](where 4 % 3 = 0)) -> (Y{f32}[4]))
;       |                                ^^^^^^^^^

(composite f ((A{f32}[4](where 4 % 3 = 0)) -> (Y{f32}[4]))
  (return A))
