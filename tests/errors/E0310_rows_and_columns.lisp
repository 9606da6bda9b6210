; E0310_rows_and_columns.lisp:7:18: error[E0310]: shapes [M] and [N] do not broadcast: M and N are not provably equal at axis -1
;     7 |   (return (where (<= (iota M) (iota N)) S -inf)))
;       |                  ^^^^^^^^^^^^^^^^^^^^^^
;       = help: where each element of one meets each of the other, one of them is a column: (unsqueeze … :axis 1)

(composite f ((S{f32}[N M]) -> (Y{f32}[N M]))
  (return (where (<= (iota M) (iota N)) S -inf)))
