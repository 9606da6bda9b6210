; E0307_in_a_call.lisp:12:11: error[E0307]: `halves` needs N % 2 = 0, which does not hold here
;    12 |   (return (halves A)))
;       |           ^^^^^^^^^^

(composite halves ((X{T}[N](where N % 2 = 0)) -> (Y{T}[N]))
  (return X))

(composite f ((A{f32}[M 3]) -> (Y{f32}[M 3]))
  (return (transpose (halves (reshape A (* 3 M))))))

(composite f2 ((A{f32}[3]) -> (Y{f32}[3]))
  (return (halves A)))
