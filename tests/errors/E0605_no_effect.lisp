; E0605_no_effect.lisp:8:5: error[E0605]: this value is used by nothing
;     8 |     (* 2 (aref A i 0)))
;       |     ^^^^^^^^^^^^^^^^^^
;       = help: inside a loop a statement stores: (setf …), (incf …), (set …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (* 2 (aref A i 0)))
  (return A))
