; E0311_split_halves.lisp:7:22: error[E0311]: the pieces of a split and its axis: N // 2 + N // 2 and N are not provably equal
;     7 |   (setf (values a b) (split A (floordiv N 2) (floordiv N 2) :axis 1))
;       |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: they are equal where N % 2 = 0: a port says so by `(where N % 2 = 0)` behind its sizes

(composite f ((A{f32}[M N]) -> (Y{f32}[M N]))
  (setf (values a b) (split A (floordiv N 2) (floordiv N 2) :axis 1))
  (return A))
