; E0310_rows_in_a_loop.lisp:8:22: error[E0310]: shapes [N] and [M] do not broadcast: N and M are not provably equal at axis -1
;     8 |     (setf (aref Y i) (+ (aref A i) (slice B _ 0)))))
;       |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: where each element of one meets each of the other, one of them is a column: (unsqueeze … :axis 1)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i) (+ (aref A i) (slice B _ 0)))))
