; E0303_scatter_complex_maximum.lisp:6:11: error[E0303]: scatter: max does not take c64
;     6 |   (return (scatter X I U :axis 0 :combine max)))
;       |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

(composite f ((X{c64}[M N] I{i64}[K] U{c64}[K N]) -> (Y{c64}[M N]))
  (return (scatter X I U :axis 0 :combine max)))
