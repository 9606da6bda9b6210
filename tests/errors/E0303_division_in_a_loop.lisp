; E0303_division_in_a_loop.lisp:8:22: error[E0303]: `/` is not defined on integers
;     8 |     (setf (aref Y i) (/ (aref A i) (aref B i)))))
;       |                      ^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: `floordiv` rounds down; `(cast f32 x)` divides as floats

(composite f ((A{i32}[N] B{i32}[N]) -> (Y{i32}[N]))
  (dotimes (i N)
    (setf (aref Y i) (/ (aref A i) (aref B i)))))
