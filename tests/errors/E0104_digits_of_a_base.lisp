; E0104_digits_of_a_base.lisp:7:29: error[E0104]: `#b12` is not a number
;     7 |   (return (logior (logand A #b12) (logand B 0xFG))))
;       |                             ^^^^
;       = expected: an integer such as 3, -1, #xFF or 0xFF, or a float such as 0.5 or 1e-5; names start with a letter

(composite f ((A{i32}[M N] B{i32}[M N]) -> (Y{i32}[M N]))
  (return (logior (logand A #b12) (logand B 0xFG))))
