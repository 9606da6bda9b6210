; E0202_ambiguous.lisp:8:16: error[E0202]: `BIG_SUM` may mean `big-sum` or `big_sum`
;     8 |     (return (+ BIG_SUM A))))
;       |                ^^^^^^^
;       = help: use the exact spelling

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (let ((big-sum A) (big_sum B))
    (return (+ BIG_SUM A))))
