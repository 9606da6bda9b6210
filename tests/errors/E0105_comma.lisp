; E0105_comma.lisp:7:15: error[E0105]: a comma in the code
;     7 |   (return (+ A, B)))
;       |               ^
;       = help: operands are separated by spaces

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ A, B)))
