; E0601_elements_of_a_value.lisp:6:9: error[E0601]: only elements of a named tensor can be assigned
;     6 |   (setf (aref (+ A B) 0 0) 1)
;       |         ^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf (aref (+ A B) 0 0) 1)
  (return A))
