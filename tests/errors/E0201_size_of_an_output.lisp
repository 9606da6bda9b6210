; E0201_size_of_an_output.lisp:7:22: error[E0201]: unknown name `M`
;     7 |   (return (reshape A M)))
;       |                      ^
;       = note: the size `M` stands in outputs only: the body defines it by what it returns, and cannot read it

(composite f ((A{f32}[N]) -> (C{f32}[M]))
  (return (reshape A M)))
