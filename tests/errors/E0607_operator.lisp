; E0607_operator.lisp:8:25: error[E0607]: `sum` works on whole tensors; inside a loop there are only numbers
;     8 |     (setf (aref Y i 0) (sum A :axis 1))))
;       |                         ^^^
;       = help: move it out of the loop, or write the loop that it stands for

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (sum A :axis 1))))
