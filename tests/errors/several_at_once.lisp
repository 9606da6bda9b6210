; several_at_once.lisp:18:18: error[E0502]: `sum` has no keyword :axs
;    18 |   (setf a (sum A :axs 1))
;       |                  ^^^^
;       = help: did you mean `:axis`?
; several_at_once.lisp:19:12: error[E0203]: unknown operator or composite `matmull`
;    19 |   (setf b (matmull A B))
;       |            ^^^^^^^
;       = help: did you mean `matmul`?
; several_at_once.lisp:20:18: error[E0201]: unknown name `unknown`
;    20 |   (setf c (+ a b unknown))
;       |                  ^^^^^^^
; several_at_once.lisp:21:25: error[E0203]: unknown operator or composite `sinn`
;    21 |   (return (+ A (exp C) (sinn B))))
;       |                         ^^^^
;       = help: did you mean `sin`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf a (sum A :axs 1))
  (setf b (matmull A B))
  (setf c (+ a b unknown))
  (return (+ A (exp C) (sinn B))))
