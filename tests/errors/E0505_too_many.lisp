; E0505_too_many.lisp:6:16: error[E0505]: `B` has 2 axes, found 3 indices
;     6 |   (return (+ A (aref B 0 0 0))))
;       |                ^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (+ A (aref B 0 0 0))))
