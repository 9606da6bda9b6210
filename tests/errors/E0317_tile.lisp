; E0317_tile.lisp:6:11: error[E0317]: a tile count of -2
;     6 |   (return (tile A -2 1)))
;       |           ^^^^^^^^^^^^^

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (return (tile A -2 1)))
