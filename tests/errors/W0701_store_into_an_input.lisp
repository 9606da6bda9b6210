; W0701_store_into_an_input.lisp:11:17: warning[W0701]: `A` is no output: what is stored there is seen in this composite only
;    11 |     (setf (aref A i) (+ 1.0 (aref B i)))))
;       |                 ^
;       = help: list `A` among the outputs to update it in place
; W0701_store_into_an_input.lisp:9:26: warning[W0702]: `B` is updated in place but never changed
;     9 | (composite f ((A{f32}[N] B{f32}[N]) -> (B))
;       |                          ^^^^^^^^^

(composite f ((A{f32}[N] B{f32}[N]) -> (B))
  (dotimes (i N)
    (setf (aref A i) (+ 1.0 (aref B i)))))
