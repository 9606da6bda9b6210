; E0311_call.lisp:7:23: error[E0311]: `W` of `rms_norm` has the extent N (from `X`), found M
;     7 |   (return (rms_norm X W)))
;       |                       ^
;       = note: the two are not provably equal

(composite f ((X{f32}[M N] W{f32}[M]) -> (Y{f32}[M N]))
  (return (rms_norm X W)))
