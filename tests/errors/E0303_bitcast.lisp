; E0303_bitcast.lisp:6:11: error[E0303]: bitcast from f32 to u64: both must be numbers of one width
;     6 |   (return (bitcast u64 A)))
;       |           ^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y))
  (return (bitcast u64 A)))
