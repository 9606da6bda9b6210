; E0320_rows_in_a_loop.lisp:8:10: error[E0320]: the sizes of a local array must be known before the loops
;     8 |     (set z (slice A i (0 (min i N))))
;       |          ^
;       = note: its shape is [min(N, i)]

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set z (slice A i (0 (min i N))))
    (setf (aref Y i 0) (sum z))))
