; E0103_string.lisp:6:19: error[E0103]: this string is not finished
;     6 |   (return (einsum "ij,ij->ij A B)))
;       |                   ^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (einsum "ij,ij->ij A B)))
