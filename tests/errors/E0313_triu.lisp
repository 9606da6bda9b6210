; E0313_triu.lisp:6:11: error[E0313]: triu and tril need two axes, the operand has rank 1
;     6 |   (return (triu A)))
;       |           ^^^^^^^^

(composite f ((A{f32}[N]) -> (Y{f32}[N]))
  (return (triu A)))
