; E0316_einsum.lisp:6:11: error[E0316]: einsum 'ij,jk' has 2 operands, 1 are given
;     6 |   (return (einsum "ij,jk" A)))
;       |           ^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (einsum "ij,jk" A)))
