; E0302_in_a_loop.lisp:8:22: error[E0302]: a float literal beside i32
;     8 |     (setf (aref Y i) (* (aref I i) 0.5))))
;       |                      ^^^^^^^^^^^^^^^^^^
;       = help: (cast f32 …) of the i32, or (cast i32 …) of the float

(composite f ((I{i32}[M]) -> (Y{i32}[M]))
  (dotimes (i M)
    (setf (aref Y i) (* (aref I i) 0.5))))
