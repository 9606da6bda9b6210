; E0607_composite_in_a_loop.lisp:8:25: error[E0607]: `softmax` works on whole tensors; inside a loop there are only numbers
;     8 |     (setf (aref Y i 0) (softmax (aref A i 0)))))
;       |                         ^^^^^^^
;       = help: call it outside the loop, bind the result and read its elements

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (softmax (aref A i 0)))))
