; E0601_while.lisp:8:5: error[E0601]: this is not a `while`
;     8 |     (while)
;       |     ^^^^^^^
;       = expected: (while condition :max n form…)

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (while)
    (setf (aref Y i 0) 1)))
