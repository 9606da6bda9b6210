; E0503_no_tensor_in_a_loop.lisp:7:30: error[E0503]: `M` is no tensor
;     7 |     (setf (aref Y i 0) (aref M i))))
;       |                              ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (aref M i))))
