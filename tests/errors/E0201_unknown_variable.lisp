; E0201_unknown_variable.lisp:10:11: error[E0201]: unknown variable `totla`
;    10 |     (incf totla (aref A i 0))
;       |           ^^^^^
;       = help: did you mean `total`?
;       = help: (set totla 0) declares it

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set total 0.0)
    (incf totla (aref A i 0))
    (setf (aref Y i 0) total)))
