; E0604_output_read_in_a_loop.lisp:7:42: error[E0604]: the output `Z` has no value here
;     7 |     (setf (aref Y i) (+ (aref A i) (aref Z i))))
;       |                                          ^

(composite f ((A{f32}[N]) -> (Y{f32}[N] Z{f32}[N]))
  (dotimes (i N)
    (setf (aref Y i) (+ (aref A i) (aref Z i))))
  (setf Z A))
