; E0115_division_by_zero.lisp:5:25: error[E0115]: `floordiv` by 0 in a size
;     5 | (composite f ((A{f32}[N (floordiv N 0)]) -> (Y{f32}[N]))
;       |                         ^^^^^^^^^^^^^^

(composite f ((A{f32}[N (floordiv N 0)]) -> (Y{f32}[N]))
  (return A))
