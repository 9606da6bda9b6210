; E0502_elementwise_max.lisp:7:11: error[E0502]: `max` of 2 operands is elementwise and takes no keywords
;     7 |   (return (max A B :axis 1)))
;       |           ^^^^^^^^^^^^^^^^^
;       = help: of one operand it reduces

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (max A B :axis 1)))
