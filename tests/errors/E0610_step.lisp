; E0610_step.lisp:6:16: error[E0610]: a loop by 0 never ends
;     6 |   (loop (i 0 M 0)
;       |                ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (loop (i 0 M 0)
    (setf (aref Y i 0) 1)))
