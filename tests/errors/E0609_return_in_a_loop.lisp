; E0609_return_in_a_loop.lisp:8:5: error[E0609]: `return` inside a loop
;     8 |     (return A)))
;       |     ^^^^^^^^^^
;       = help: outputs are returned behind it, made by (where c a b), or stored by (setf (aref Y …) …)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (return A)))
