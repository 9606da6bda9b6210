; E0303_plain_condition_in_a_loop.lisp:8:31: error[E0303]: a condition must be bool, found i64
;     8 |     (setf (aref Y i 0) (where 1 2 3))))
;       |                               ^
;       = help: compare it, as in (/= x 0)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (where 1 2 3))))
