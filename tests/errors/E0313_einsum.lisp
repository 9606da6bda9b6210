; E0313_einsum.lisp:6:11: error[E0313]: einsum 'ijk->ik': 'ijk' names 3 axes of an operand of rank 2
;     6 |   (return (einsum "ijk->ik" A)))
;       |           ^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (einsum "ijk->ik" A)))
