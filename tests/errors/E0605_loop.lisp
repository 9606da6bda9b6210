; E0605_loop.lisp:6:3: error[E0605]: this `dotimes` has no effect: it stores into nothing
;     6 |   (dotimes (i M)
;       |   ^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set x (aref A i 0)))
  (return A))
