; E0313_element_in_a_loop.lisp:8:5: error[E0313]: a tensor of shape [M, N] does not fit into one element
;     8 |     (setf (aref Y i 0) (* 2 A))))
;       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: (aref T i) has one axis less than T

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (* 2 A))))
