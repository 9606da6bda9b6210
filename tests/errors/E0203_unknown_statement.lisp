; E0203_unknown_statement.lisp:8:6: error[E0203]: unknown statement `incr`
;     8 |     (incr (aref Y i 0) 1)))
;       |      ^^^^
;       = help: did you mean `incf`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (incr (aref Y i 0) 1)))
