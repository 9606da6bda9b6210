; E0205_recursion.lisp:8:11: error[E0205]: `odd` calls itself
;     8 |   (return (odd X)))
;       |           ^^^^^^^
;       = note: odd → even → odd
;       = note: called as `even` from E0205_recursion.lisp:11:11

(composite even ((X{f32}[N]) -> (Y{f32}[N]))
  (return (odd X)))

(composite odd ((X{f32}[N]) -> (Y{f32}[N]))
  (return (even X)))
