; E0501_aref_in_a_loop.lisp:8:24: error[E0501]: `aref` takes the name of a tensor and its indices
;     8 |     (setf (aref Y i 0) (aref))))
;       |                        ^^^^^^
;       = expected: (aref T i…)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (aref))))
