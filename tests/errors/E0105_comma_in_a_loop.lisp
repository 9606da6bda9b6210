; E0105_comma_in_a_loop.lisp:8:39: error[E0105]: a comma in the code
;     8 |     (setf (aref Y i 0) (+ (aref A i 0), 2))))
;       |                                       ^
;       = help: operands are separated by spaces

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (+ (aref A i 0), 2))))
