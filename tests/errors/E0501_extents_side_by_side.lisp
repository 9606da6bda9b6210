; E0501_extents_side_by_side.lisp:18:11: error[E0501]: `full` takes 2 operands, found 3
;    18 |   (setf y (full M N 0.5))
;       |           ^^^^^^^^^^^^^^
;       = expected: (full shape value :dtype type)
;       = help: the shape is one list: (full (M N) 0.5)
; E0501_extents_side_by_side.lisp:19:16: error[E0501]: `zeros` takes 1 operand, found 2
;    19 |   (return (+ A (zeros M (* 2 N)) (rand M N :seed 7))))
;       |                ^^^^^^^^^^^^^^^^^
;       = expected: (zeros shape :dtype type)
;       = help: the shape is one list: (zeros (M (* 2 N)))
; E0501_extents_side_by_side.lisp:19:34: error[E0501]: `rand` takes 1 operand, found 2
;    19 |   (return (+ A (zeros M (* 2 N)) (rand M N :seed 7))))
;       |                                  ^^^^^^^^^^^^^^^^^^
;       = expected: (rand shape :seed tensor :dtype type)
;       = help: the shape is one list: (rand (M N))

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (setf y (full M N 0.5))
  (return (+ A (zeros M (* 2 N)) (rand M N :seed 7))))
