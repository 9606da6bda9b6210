; E0203_when.lisp:7:19: error[E0203]: unknown statement `when`
;     7 |   (dotimes (i N) (when (> (aref A i) 0) (setf (aref C i) 1))))
;       |                   ^^^^
;       = help: did you mean `if`?

(composite f ((A{f32}[N]) -> (C{f32}[N]))
  (dotimes (i N) (when (> (aref A i) 0) (setf (aref C i) 1))))
