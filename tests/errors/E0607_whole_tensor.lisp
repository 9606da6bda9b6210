; E0607_whole_tensor.lisp:8:29: error[E0607]: `A` has 2 axes; inside a loop its elements are read
;     8 |     (setf (aref Y i 0) (* 2 A))))
;       |                             ^
;       = help: (aref A i j)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (* 2 A))))
