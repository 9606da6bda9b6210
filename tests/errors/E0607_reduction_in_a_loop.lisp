; E0607_reduction_in_a_loop.lisp:8:24: error[E0607]: `max` of one operand reduces a whole tensor
;     8 |     (setf (aref Y i 0) (max (aref A i 0)))))
;       |                        ^^^^^^^^^^^^^^^^^^
;       = help: inside a loop, (maxf place value) keeps a running max

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (max (aref A i 0)))))
