; E0320_size.lisp:7:23: error[E0320]: this integer is not known at compile time
;     7 |   (return (slice A (0 k))))
;       |                       ^
;       = help: it must be made of literals and sizes

(composite f ((A{f32}[N] k{i64}[]) -> Y)
  (return (slice A (0 k))))
