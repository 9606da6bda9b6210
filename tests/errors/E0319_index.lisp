; E0319_index.lisp:7:34: error[E0319]: the index `(- -1 i)` is never inside its axis of extent N
;     7 |     (setf (aref Y i 0) (aref A i (- -1 i)))))
;       |                                  ^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (aref A i (- -1 i)))))
