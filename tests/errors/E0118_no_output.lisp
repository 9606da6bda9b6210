; E0118_no_output.lisp:5:27: error[E0118]: a composite needs an output
;     5 | (composite f ((A{f32}[N]) -> ())
;       |                           ^^

(composite f ((A{f32}[N]) -> ())
  (return A))
