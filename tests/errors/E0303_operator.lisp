; E0303_operator.lisp:7:11: error[E0303]: sqrt does not take i32
;     7 |   (return (sqrt I)))
;       |           ^^^^^^^^
;       = help: sqrt takes float; cast first

(composite f ((I{i32}[N]) -> (Y))
  (return (sqrt I)))
