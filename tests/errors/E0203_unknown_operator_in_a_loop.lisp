; E0203_unknown_operator_in_a_loop.lisp:8:25: error[E0203]: unknown operator `sqr`
;     8 |     (setf (aref Y i 0) (sqr (aref A i 0)))))
;       |                         ^^^
;       = help: did you mean `sqrt`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (sqr (aref A i 0)))))
