; E0316_twice.lisp:6:11: error[E0316]: einsum 'ij->ii': the result names an index twice
;     6 |   (return (einsum "ij->ii" A)))
;       |           ^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (einsum "ij->ii" A)))
