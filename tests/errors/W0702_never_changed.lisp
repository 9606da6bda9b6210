; W0702_never_changed.lisp:5:26: warning[W0702]: `B` is updated in place but never changed
;     5 | (composite f ((A{f32}[N] B{f32}[N]) -> (B Y{f32}[N]))
;       |                          ^^^^^^^^^

(composite f ((A{f32}[N] B{f32}[N]) -> (B Y{f32}[N]))
  (setf Y (+ A B)))
