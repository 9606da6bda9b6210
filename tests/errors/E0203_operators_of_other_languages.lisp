; E0203_operators_of_other_languages.lisp:23:12: error[E0203]: unknown operator or composite `@`
;    23 |   (setf y (@ A B))
;       |            ^
;       = help: did you mean `matmul`?
; E0203_operators_of_other_languages.lisp:24:4: error[E0203]: unknown operator or composite `+=`
;    24 |   (+= y A)
;       |    ^^
;       = help: did you mean `incf`?
; E0203_operators_of_other_languages.lisp:26:6: error[E0203]: unknown statement `*=`
;    26 |     (*= (aref y i 0) (** (aref A i 0) 2)))
;       |      ^^
;       = help: did you mean `mulcf`?
; E0203_operators_of_other_languages.lisp:26:23: error[E0203]: unknown operator `**`
;    26 |     (*= (aref y i 0) (** (aref A i 0) 2)))
;       |                       ^^
;       = help: did you mean `pow`?
; E0203_operators_of_other_languages.lisp:27:19: error[E0203]: unknown operator or composite `==`
;    27 |   (return (where (== y 0) A y)))
;       |                   ^^
;       = help: did you mean `=`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf y (@ A B))
  (+= y A)
  (dotimes (i M)
    (*= (aref y i 0) (** (aref A i 0) 2)))
  (return (where (== y 0) A y)))
