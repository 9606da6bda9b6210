; E0605_number_as_statement.lisp:8:5: error[E0605]: this value is used by nothing
;     8 |     i))
;       |     ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) 1)
    i))
