; E0310_axis_reduced.lisp:7:16: error[E0310]: shapes [H, N, M] and [H, N] do not broadcast: N and H are not provably equal at axis -2
;     7 |   (return (exp (- S (max S :axis -1)))))
;       |                ^^^^^^^^^^^^^^^^^^^^^^
;       = help: (unsqueeze … :axis 2) gives [H, N] the axis that it lacks, or :keepdims t where it was reduced

(composite f ((S{f32}[H N M]) -> (Y{f32}[H N M]))
  (return (exp (- S (max S :axis -1)))))
