; E0203_infix_in_a_loop.lisp:15:35: error[E0503]: `((aref A i) * 2)` has no value
;    15 |   (dotimes (i N) (setf (aref C i) ((aref A i) * 2)) (setf (aref C i) (i + 1))))
;       |                                   ^^^^^^^^^^^^^^^^
;       = help: what stands first is an operator, as in (+ a b)
; E0203_infix_in_a_loop.lisp:15:71: error[E0203]: unknown operator `i`
;    15 |   (dotimes (i N) (setf (aref C i) ((aref A i) * 2)) (setf (aref C i) (i + 1))))
;       |                                                                       ^
;       = note: `i` is a name: what stands first is an operator, as in (+ i …) or (aref T i)
; E0203_infix_in_a_loop.lisp:15:73: error[E0201]: unknown name `+`
;    15 |   (dotimes (i N) (setf (aref C i) ((aref A i) * 2)) (setf (aref C i) (i + 1))))
;       |                                                                         ^
;       = note: `+` is an operator, which stands first: (+ …)

(composite f ((A{f32}[N]) -> (C{f32}[N]))
  (dotimes (i N) (setf (aref C i) ((aref A i) * 2)) (setf (aref C i) (i + 1))))
