; E0303_operator_in_a_loop.lisp:7:22: error[E0303]: `logand` is not defined on f32
;     7 |     (setf (aref Y i) (logand (aref A i) 1))))
;       |                      ^^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M]) -> (Y{f32}[M]))
  (dotimes (i M)
    (setf (aref Y i) (logand (aref A i) 1))))
