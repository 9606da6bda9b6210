; E0104_number.lisp:7:16: error[E0104]: `3D` is not a number
;     7 |   (return (* A 3D)))
;       |                ^^
;       = expected: an integer such as 3, -1, #xFF or 0xFF, or a float such as 0.5 or 1e-5; names start with a letter

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (* A 3D)))
