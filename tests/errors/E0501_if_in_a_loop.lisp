; E0501_if_in_a_loop.lisp:8:24: error[E0501]: an `if` that gives a value takes 3 operands, found 2
;     8 |     (setf (aref Y i 0) (if (< i 2) 1))))
;       |                        ^^^^^^^^^^^^^^
;       = expected: (if condition then else)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (if (< i 2) 1))))
