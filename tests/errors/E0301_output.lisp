; E0301_output.lisp:7:11: error[E0301]: the output `Y` is f64, its value f32
;     7 |   (return A))
;       |           ^
;       = help: (cast f64 …)

(composite f ((A{f32}[N]) -> (Y{f64}[N]))
  (return A))
