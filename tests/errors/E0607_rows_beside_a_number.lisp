; E0607_rows_beside_a_number.lisp:8:5: error[E0313]: a tensor of shape [N] does not fit into one element
;     8 |     (setf (aref Y i 0) (if (> i 0) (exp (aref A i)) 0))))
;       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: (aref T i) has one axis less than T

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (if (> i 0) (exp (aref A i)) 0))))
