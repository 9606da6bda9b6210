; E0313_name_of_an_output.lisp:11:5: error[E0313]: a tensor of shape [N] does not fit into one element
;    11 |     (setf (aref X t) x)))
;       |     ^^^^^^^^^^^^^^^^^^^
;       = help: (aref T i) has one axis less than T
;       = note: the output `X` was given a value of rank 1 before; a name that differs in case, - and _ only is the same name

(composite kalman ((Z{f64}[T M] F{f64}[N N]) -> (X{f64}[T N]))
  (set x (zeros N :dtype f64))
  (dotimes (t T)
    (setf x (matmul F x))
    (setf (aref X t) x)))
