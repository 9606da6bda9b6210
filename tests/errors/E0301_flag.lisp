; E0301_flag.lisp:8:5: error[E0301]: `Y` is f32, its new value bool
;     8 |     (setf (aref Y i 0) t)))
;       |     ^^^^^^^^^^^^^^^^^^^^^
;       = help: (cast f32 …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) t)))
