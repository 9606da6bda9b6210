; E0318_index.lisp:7:11: error[E0318]: an index of dtype f32
;     7 |   (return (gather A I)))
;       |           ^^^^^^^^^^^^
;       = help: an index is an integer; try (cast i64 …)

(composite f ((A{f32}[N] I{f32}[M]) -> (Y{f32}[M]))
  (return (gather A I)))
