; E0603_no_tensor.lisp:6:11: error[E0603]: the value of the output `Y` is no tensor
;     6 |   (return "A"))
;       |           ^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return "A"))
