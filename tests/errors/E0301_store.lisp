; E0301_store.lisp:8:5: error[E0301]: `Y` is f32, its new value f64
;     8 |     (setf (aref Y i) (aref A i))))
;       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: (cast f32 …)

(composite f ((A{f64}[N]) -> (Y{f32}[N]))
  (dotimes (i N)
    (setf (aref Y i) (aref A i))))
