; E0320_make_array.lisp:7:23: error[E0320]: the sizes of a local array must be known before the loops
;     7 |     (make-array v f32 (i))
;       |                       ^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (make-array v f32 (i))
    (setf (aref Y i 0) 1)))
