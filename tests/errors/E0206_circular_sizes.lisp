; E0206_circular_sizes.lisp:6:36: error[E0206]: the size `M` is defined by itself
;     6 | (composite f ((A{f32}[M N K](where M = (* 2 N), N = (+ K 1), K = M)) -> (Y{f32}[M]))
;       |                                    ^^^^^^^^^^^
;       = note: M and N and K depend on one another

(composite f ((A{f32}[M N K](where M = (* 2 N), N = (+ K 1), K = M)) -> (Y{f32}[M]))
  (return (sum A :axis (1 2))))
