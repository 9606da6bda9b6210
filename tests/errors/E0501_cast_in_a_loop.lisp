; E0501_cast_in_a_loop.lisp:8:24: error[E0501]: `cast` takes a dtype and a value
;     8 |     (setf (aref Y i 0) (cast f32))))
;       |                        ^^^^^^^^^^
;       = expected: (cast f32 x)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (cast f32))))
