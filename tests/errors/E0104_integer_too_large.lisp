; E0104_integer_too_large.lisp:6:16: error[E0104]: the integer 99999999999999999999 does not fit into 64 bits
;     6 |   (return (* A 99999999999999999999)))
;       |                ^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (* A 99999999999999999999)))
