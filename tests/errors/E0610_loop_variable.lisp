; E0610_loop_variable.lisp:7:10: error[E0610]: the loop variable `i` cannot be assigned
;     7 |     (set i 0)
;       |          ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set i 0)
    (setf (aref Y i 0) 1)))
