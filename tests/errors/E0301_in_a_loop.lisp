; E0301_in_a_loop.lisp:8:22: error[E0301]: `+` on f32 and f16
;     8 |     (setf (aref Y i) (+ (aref A i) (aref H i)))))
;       |                      ^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: nothing is converted silently; (cast f32 …)

(composite f ((A{f32}[M] H{f16}[M]) -> (Y{f32}[M]))
  (dotimes (i M)
    (setf (aref Y i) (+ (aref A i) (aref H i)))))
