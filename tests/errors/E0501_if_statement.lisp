; E0501_if_statement.lisp:8:5: error[E0501]: `if` takes 2 or 3 operands, found 4
;     8 |     (if (< i 2) (setf (aref Y i 0) 1) (setf (aref Y i 0) 2) (setf (aref Y i 0) 3))))
;       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = expected: (if condition then [else])

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (if (< i 2) (setf (aref Y i 0) 1) (setf (aref Y i 0) 2) (setf (aref Y i 0) 3))))
