; E0607_rows_as_condition.lisp:8:9: error[E0607]: `(> (aref A i) 0)` has 1 axis, and a number is needed here
;     8 |     (if (> (aref A i) 0) (setf (aref Y i 0) 1))))
;       |         ^^^^^^^^^^^^^^^^
;       = help: one element is (aref x i), and (sum x), (max x) and others reduce all axes

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (if (> (aref A i) 0) (setf (aref Y i 0) 1))))
