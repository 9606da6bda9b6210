; E0303_mean.lisp:7:11: error[E0303]: mean of i32
;     7 |   (return (mean I)))
;       |           ^^^^^^^^
;       = help: cast to a float dtype first, as in (mean (cast f32 x))

(composite f ((I{i32}[N]) -> (Y))
  (return (mean I)))
