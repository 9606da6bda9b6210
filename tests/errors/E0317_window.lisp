; E0317_window.lisp:6:11: error[E0317]: a window of 5 in an axis of extent 3
;     6 |   (return (unfold A :size 5)))
;       |           ^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[3]) -> (Y))
  (return (unfold A :size 5)))
