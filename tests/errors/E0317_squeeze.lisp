; E0317_squeeze.lisp:6:11: error[E0317]: axis 0 has extent M, only an axis of extent 1 can be squeezed
;     6 |   (return (squeeze A :axis 0)))
;       |           ^^^^^^^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (squeeze A :axis 0)))
