; E0303_accumulated_bool.lisp:8:5: error[E0303]: `seen` is bool and cannot be accumulated
;     8 |     (incf seen 1)
;       |     ^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set seen (< 0 1))
    (incf seen 1)
    (setf (aref Y i 0) 0)))
