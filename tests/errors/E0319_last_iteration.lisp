; E0319_last_iteration.lisp:6:3: error[E0319]: an index in this loop is always outside its axis
;     6 |   (dotimes (i N)
;       |   ^^^^^^^^^^^^^^

(composite f ((A{f32}[1 N](where N >= 1)) -> (Y{f32}[1 N]))
  (dotimes (i N)
    (setf (aref Y 0 i) (aref A 0 (+ i 1)))))
