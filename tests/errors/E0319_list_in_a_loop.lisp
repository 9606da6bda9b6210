; E0319_list_in_a_loop.lisp:8:36: error[E0319]: there is no element 3 in at, a list of 3
;     8 |       (incf (aref Y i) (* (aref at k) (aref A i))))))
;       |                                    ^

(composite f ((A{f32}[N] &key (at (0 2 3))) -> (Y{f32}[N]))
  (dotimes (k 40)
    (dotimes (i N)
      (incf (aref Y i) (* (aref at k) (aref A i))))))
