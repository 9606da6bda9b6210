; E0605_statement_as_value.lisp:7:12: error[E0605]: `dotimes` is a statement and has no value
;     7 |   (return (dotimes (i M) (incf (aref Y i 0)))))
;       |            ^^^^^^^
;       = help: it stands by itself, before what reads what it stores

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (dotimes (i M) (incf (aref Y i 0)))))
