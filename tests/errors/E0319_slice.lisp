; E0319_slice.lisp:6:11: error[E0319]: index 7 is outside the axis of extent 3
;     6 |   (return (slice A 7)))
;       |           ^^^^^^^^^^^

(composite f ((A{f32}[3]) -> (Y{f32}[]))
  (return (slice A 7)))
