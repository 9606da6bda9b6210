; E0301_plain_beside_bool.lisp:7:11: error[E0301]: a plain integer beside bool
;     7 |   (return (+ C 1)))
;       |           ^^^^^^^
;       = help: cast the bool operand first, as in (cast i64 x)

(composite f ((C{bool}[N]) -> (Y))
  (return (+ C 1)))
