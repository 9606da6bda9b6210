; E0116_mark.lisp:6:27: error[E0116]: `<0` begins no memory order
;     6 | (composite f ((A{f32}[M N]<0 1 :stridd>) -> (Y{f32}[N]))
;       |                           ^^
;       = expected: the axes from outermost to innermost, as in <1 0> or <0 1 :strided>

(composite f ((A{f32}[M N]<0 1 :stridd>) -> (Y{f32}[N]))
  (return (sum A :axis 0)))
