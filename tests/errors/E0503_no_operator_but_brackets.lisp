; E0503_no_operator_but_brackets.lisp:7:12: error[E0503]: expected an operator, found `0`
;     7 |   (return A[0]))
;       |            ^^^
;       = help: an element is (aref T i), a part of a tensor (slice T (from to))

(composite f ((A{f32}[N]) -> (C{f32}[N]))
  (return A[0]))
