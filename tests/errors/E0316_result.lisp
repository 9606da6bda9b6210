; E0316_result.lisp:6:11: error[E0316]: einsum 'ij->ik': the result's index k is in no operand
;     6 |   (return (einsum "ij->ik" A)))
;       |           ^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (einsum "ij->ik" A)))
