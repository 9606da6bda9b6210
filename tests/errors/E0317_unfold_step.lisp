; E0317_unfold_step.lisp:6:11: error[E0317]: a step of 0
;     6 |   (return (unfold A :size 2 :step 0)))
;       |           ^^^^^^^^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[3]) -> (Y))
  (return (unfold A :size 2 :step 0)))
