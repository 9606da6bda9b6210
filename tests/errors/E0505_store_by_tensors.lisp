; E0505_store_by_tensors.lisp:7:9: error[E0505]: `aref` with integer tensors needs an index for each of the 2 axes
;     7 |   (setf (aref z I) 1)
;       |         ^^^^^^^^^^

(composite f ((A{f32}[M N] I{i64}[K]) -> (Y{f32}[M N]))
  (setf z (* 1 A))
  (setf (aref z I) 1)
  (return z))
