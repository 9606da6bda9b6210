; E0505_output_by_another_case.lisp:11:13: error[E0505]: `S` has 0 axes, found 1 index
;    11 |       (incf (aref S i) (aref A i j)))))
;       |             ^^^^^^^^^^
;       = note: the output `S` was given a value of rank 0 before; a name that differs in case, - and _ only is the same name

(composite f ((A{f32}[M N]) -> (S{f32}[M]))
  (set s 0.0)
  (dotimes (i M)
    (dotimes (j N)
      (incf s (aref A i j))
      (incf (aref S i) (aref A i j)))))
