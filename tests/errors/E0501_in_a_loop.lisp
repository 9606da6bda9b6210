; E0501_in_a_loop.lisp:7:24: error[E0501]: `exp` takes 1 operand, found 2
;     7 |     (setf (aref Y i 0) (exp (aref A i 0) 2))))
;       |                        ^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (exp (aref A i 0) 2))))
