; E0608_shape_unknown.lisp:8:17: error[E0608]: the shape of the output `Y` is not known before it has a value
;     8 |     (setf (aref Y i) (aref A i))))
;       |                 ^
;       = help: its sizes must stand in an input (which the output may be: it is updated in place) or a `where`, or give it a value first: (setf Y (zeros (M N)))

(composite f ((A{f32}[N]) -> Y)
  (dotimes (i N)
    (setf (aref Y i) (aref A i))))
