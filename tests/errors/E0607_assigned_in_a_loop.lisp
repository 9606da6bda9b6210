; E0607_assigned_in_a_loop.lisp:8:10: error[E0607]: `Y` is a whole tensor; inside a loop its elements are assigned
;     8 |     (set Y 0)))
;       |          ^
;       = help: (setf (aref Y i j) …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set Y 0)))
