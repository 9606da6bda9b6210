; E0303_complex_bitcast.lisp:6:11: error[E0303]: bitcast from c64 to u64: a complex number has two parts
;     6 |   (return (bitcast u64 A)))
;       |           ^^^^^^^^^^^^^^^

(composite f ((A{c64}[N]) -> (Y{u64}[N]))
  (return (bitcast u64 A)))
