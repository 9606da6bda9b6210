; E0320_list_read_by_data.lisp:8:31: error[E0320]: `(aref I i)` must be known at compile time, since at is a list
;     8 |     (setf (aref Y i) (aref at (aref I i)))))
;       |                               ^^^^^^^^^^
;       = expected: an integer, a parameter, or the variable of a loop whose bounds are constants

(composite f ((I{i32}[N] &key (at (0 2 3))) -> (Y{i64}[N]))
  (dotimes (i N)
    (setf (aref Y i) (aref at (aref I i)))))
