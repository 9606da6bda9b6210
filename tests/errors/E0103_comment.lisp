; E0103_comment.lisp:6:14: error[E0103]: this comment is not finished
;     6 |   (return A) #| never finished)
;       |              ^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return A) #| never finished)
