; E0302_float_literal.lisp:7:11: error[E0302]: a float literal beside i32
;     7 |   (return (* A 0.5)))
;       |           ^^^^^^^^^
;       = help: cast the i32 operand to a float dtype first, as in (cast f32 x)

(composite f ((A{i32}[N]) -> (Y{i32}[N]))
  (return (* A 0.5)))
