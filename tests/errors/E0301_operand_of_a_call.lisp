; E0301_operand_of_a_call.lisp:10:18: error[E0301]: `X` of `inner` is f16, found f32
;    10 |   (return (inner A)))
;       |                  ^
;       = help: (cast f16 …)

(composite inner ((X{f16}[M N]) -> (Y{f16}[M N]))
  (return X))

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (inner A)))
