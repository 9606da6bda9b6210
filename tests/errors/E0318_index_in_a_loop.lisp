; E0318_index_in_a_loop.lisp:8:30: error[E0318]: an index must be an integer, found f32
;     8 |     (setf (aref Y i) (aref A (aref I i)))))
;       |                              ^^^^^^^^^^
;       = help: (cast i64 …)

(composite f ((A{f32}[N] I{f32}[M]) -> (Y{f32}[M]))
  (dotimes (i M)
    (setf (aref Y i) (aref A (aref I i)))))
