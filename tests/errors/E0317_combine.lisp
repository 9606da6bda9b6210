; E0317_combine.lisp:6:11: error[E0317]: scatter combines with set add max min mul, not with sum
;     6 |   (return (scatter A I A :combine sum)))
;       |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] I{i64}[M]) -> (Y{f32}[M N]))
  (return (scatter A I A :combine sum)))
