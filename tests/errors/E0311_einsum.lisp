; E0311_einsum.lisp:6:11: error[E0311]: index j of einsum 'ij,jk->ik': N and M are not provably equal
;     6 |   (return (einsum "ij,jk->ik" A B)))
;       |           ^^^^^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (einsum "ij,jk->ik" A B)))
