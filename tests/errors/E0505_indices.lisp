; E0505_indices.lisp:7:22: error[E0505]: `A` has 2 axes, found 3 indices
;     7 |     (setf (aref Y i) (aref A i 0 0))))
;       |                      ^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i) (aref A i 0 0))))
