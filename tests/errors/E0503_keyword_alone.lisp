; E0503_keyword_alone.lisp:7:11: error[E0503]: a keyword has no place here
;     7 |   (return :axis))
;       |           ^^^^^
;       = help: keywords follow the operands

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return :axis))
