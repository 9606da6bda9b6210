; E0503_tuple_in_a_loop.lisp:7:24: error[E0503]: expected a number, found `"one"`
;     7 |     (setf (aref Y i 0) "one")))
;       |                        ^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) "one")))
