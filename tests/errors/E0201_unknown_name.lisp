; E0201_unknown_name.lisp:8:14: error[E0201]: unknown name `totl`
;     8 |   (return (+ totl 1)))
;       |              ^^^^
;       = help: did you mean `total`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf total (+ A B))
  (return (+ totl 1)))
