; E0505_output_of_another_rank.lisp:8:9: error[E0505]: `S` has 0 axes, found 1 index
;     8 |   (setf (aref S 0) s)
;       |         ^^^^^^^^^^
;       = note: the output `S` was given a value of rank 0 before; a name that differs in case, - and _ only is the same name

(composite f ((A{f32}[M N]) -> (S{f32}[M]))
  (setf s (sum A))
  (setf (aref S 0) s)
  (return S))
