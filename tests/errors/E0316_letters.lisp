; E0316_letters.lisp:6:11: error[E0316]: einsum 'i1->i': 'i1' is not a list of letters
;     6 |   (return (einsum "i1->i" A)))
;       |           ^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (einsum "i1->i" A)))
