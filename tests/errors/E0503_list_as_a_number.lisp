; E0503_list_as_a_number.lisp:8:22: error[E0503]: `at` is no number
;     8 |     (setf (aref Y i) at)))
;       |                      ^^
;       = help: one of its numbers is (aref list k)

(composite f ((A{f32}[N] &key (at (0 2 3))) -> (Y{f32}[N]))
  (dotimes (i N)
    (setf (aref Y i) at)))
