; E0320_list_in_a_loop.lisp:8:31: error[E0320]: `k` must be known at compile time, since at is a list
;     8 |     (incf (aref Y k) (aref at k))))
;       |                               ^
;       = expected: an integer, a parameter, or the variable of a loop whose bounds are constants

(composite f ((A{f32}[N] &key (at (0 2 3))) -> (Y{f32}[N]))
  (dotimes (k N)
    (incf (aref Y k) (aref at k))))
