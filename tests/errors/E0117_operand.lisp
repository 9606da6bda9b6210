; E0117_operand.lisp:5:34: error[E0117]: an operand is missing beside `*`
;     5 | (composite f ((A{f32}[N](where N * = 4)) -> (Y{f32}[N]))
;       |                                  ^

(composite f ((A{f32}[N](where N * = 4)) -> (Y{f32}[N]))
  (return A))
