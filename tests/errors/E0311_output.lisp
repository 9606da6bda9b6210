; E0311_output.lisp:7:11: error[E0311]: the output `Y` has the extent N, found M
;     7 |   (return A))
;       |           ^
;       = note: the two are not provably equal

(composite f ((A{f32}[M N]) -> (Y{f32}[N M]))
  (return A))
