; E0607_size_by_another_case.lisp:9:17: error[E0607]: `s` has 1 axis, and a number is needed here
;     9 |     (dotimes (j s)
;       |                 ^
;       = help: the size is `S`; `s` is a tensor

(composite f ((A{f32}[M S]) -> (s{f32}[M] Y{f32}[M]))
  (setf s (sum A :axis 1))
  (dotimes (i M)
    (dotimes (j s)
      (incf (aref Y i) (aref A i j)))))
