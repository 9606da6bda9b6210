; E0204_two_composites.lisp:9:12: error[E0204]: there is another composite `my-sum` in this file
;     9 | (composite My_Sum ((A{f32}[N]) -> (Y{f32}[N]))
;       |            ^^^^^^
;       = note: it is at line 6

(composite my-sum ((A{f32}[N]) -> (Y{f32}[N]))
  (return A))

(composite My_Sum ((A{f32}[N]) -> (Y{f32}[N]))
  (return A))
