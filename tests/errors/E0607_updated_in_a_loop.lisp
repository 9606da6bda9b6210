; E0607_updated_in_a_loop.lisp:12:45: error[E0607]: `z` would be updated in place by a call inside a loop
;    12 |     (setf (aref Y i) (accumulate (aref B i) z))))
;       |                                             ^
;       = help: (setf z …) with what the call gives, and a copy as operand: (+ 0 z)

(composite accumulate ((A{f32}[N] S{f32}[N]) -> (S))
  (return (+ S A)))

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set z (aref A i))
    (setf (aref Y i) (accumulate (aref B i) z))))
