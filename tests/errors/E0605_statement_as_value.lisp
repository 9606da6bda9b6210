; E0605_statement_as_value.lisp:6:12: error[E0605]: `dotimes` is a statement and has no value
;     6 |   (return (dotimes (i M) (incf (aref Y i 0)))))
;       |            ^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (dotimes (i M) (incf (aref Y i 0)))))
