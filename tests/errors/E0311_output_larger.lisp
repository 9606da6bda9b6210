; E0311_output_larger.lisp:8:11: error[E0311]: the output `C` has the extent 4, found min(4, N)
;     8 |   (return (slice A (0 4))))
;       |           ^^^^^^^^^^^^^^^
;       = note: the two are not provably equal
;       = they are equal where 4 <= N: a port says so by `(where 4 <= N)` behind its sizes

(composite f ((A{f32}[N]) -> (C{f32}[4]))
  (return (slice A (0 4))))
