; E0609_in_a_branch.lisp:7:15: error[E0609]: `return` in a branch whose condition is not known at compile time
;     7 |   (if (> N 4) (return A)))
;       |               ^^^^^^^^^^
;       = help: outputs are returned behind it, made by (where c a b), or stored by (setf (aref Y …) …)

(composite f ((A{f32}[N]) -> (C{f32}[N]))
  (if (> N 4) (return A)))
