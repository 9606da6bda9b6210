; E0313_rank_of_a_variable_in_a_loop.lisp:8:10: error[E0313]: `z` has rank 1, its new value rank 2
;     8 |     (set z A)
;       |          ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set z (aref A i))
    (set z A)
    (setf (aref Y i) z)))
