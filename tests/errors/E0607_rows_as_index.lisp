; E0607_rows_as_index.lisp:8:17: error[E0607]: `(aref B i)` has 1 axis, and a number is needed here
;     8 |     (dotimes (k (aref B i))
;       |                 ^^^^^^^^^^
;       = help: one element is (aref x i), and (sum x), (max x) and others reduce all axes

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (dotimes (k (aref B i))
      (incf (aref Y i k)))))
