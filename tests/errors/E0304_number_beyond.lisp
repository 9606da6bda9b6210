; E0304_number_beyond.lisp:15:11: error[E0304]: u8 does not hold the number -1: it holds 0 to 255
;    15 |   (setf y (+ A -1))
;       |           ^^^^^^^^
;       = help: (cast u8 -1) wraps
; E0304_number_beyond.lisp:17:22: error[E0304]: u8 does not hold the number 511: it holds 0 to 255
;    17 |     (setf (aref Y i) (max (aref A i) #x1FF)))
;       |                      ^^^^^^^^^^^^^^^^^^^^^^
;       = help: (cast u8 511) wraps
; E0304_number_beyond.lisp:18:18: error[E0304]: i64 does not hold the number 18446744073709551615: it holds -9223372036854775808 to 9223372036854775807
;    18 |   (return y (+ B (sum (full (N) #xFFFFFFFFFFFFFFFF)))))
;       |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: (cast i64 18446744073709551615) wraps

(composite f ((A{u8}[N] B{i64}[N]) -> (Y{u8}[N] Z{i64}[N]))
  (setf y (+ A -1))
  (dotimes (i N)
    (setf (aref Y i) (max (aref A i) #x1FF)))
  (return y (+ B (sum (full (N) #xFFFFFFFFFFFFFFFF)))))
