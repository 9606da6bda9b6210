; E0106_list_written_out.lisp:9:7: error[E0106]: more than 500 statements in one nest of loops
;     9 |       (incf (aref Y i) (if (< k 3) (aref at k) 1)))))
;       |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = note: a loop whose variable picks elements of a list is written out

(composite f ((A{f32}[N] &key (at (0 2 3))) -> (Y{f32}[N]))
  (dotimes (k 1000)
    (dotimes (i N)
      (incf (aref Y i) (if (< k 3) (aref at k) 1)))))
