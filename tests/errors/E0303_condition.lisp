; E0303_condition.lisp:7:11: error[E0303]: a condition must be bool, found i32
;     7 |   (return (where A 1 0)))
;       |           ^^^^^^^^^^^^^
;       = help: compare it, as in (/= x 0)

(composite f ((A{i32}[N]) -> (Y{i32}[N]))
  (return (where A 1 0)))
