; E0303_bitcast_in_a_loop.lisp:8:22: error[E0303]: `bitcast` of f32 to u64
;     8 |     (setf (aref Y i) (bitcast u64 (aref A i)))))
;       |                      ^^^^^^^^^^^^^^^^^^^^^^^^
;       = note: the two differ in size

(composite f ((A{f32}[M]) -> (Y{u64}[M]))
  (dotimes (i M)
    (setf (aref Y i) (bitcast u64 (aref A i)))))
