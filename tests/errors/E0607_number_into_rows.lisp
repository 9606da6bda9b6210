; E0607_number_into_rows.lisp:9:10: error[E0607]: `z` is a whole tensor; inside a loop its elements are assigned
;     9 |     (set z (aref A i 0))
;       |          ^
;       = help: (setf (aref z i) …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set z (aref A i))
    (set z (aref A i 0))
    (setf (aref Y i) z)))
