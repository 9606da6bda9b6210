; E0117_where.lisp:14:28: error[E0117]: expected `where`, found `whre`
;    14 | (composite f ((A{f32}[M N](whre M = 1)) -> (Y{f32}[M N]))
;       |                            ^^^^
;       = expected: (where M = 1, N < 4096), or () for nothing
; E0117_where.lisp:17:34: error[E0117]: `M` is not a constraint
;    17 | (composite g ((A{f32}[M N](where M)) -> (Y{f32}[M N]))
;       |                                  ^
;       = expected: a comparison such as M = 1, N < 4096 or M % 8 = 0
; E0117_where.lisp:20:38: error[E0117]: `2 N` is not a size expression
;    20 | (composite h ((A{f32}[M N](where M = 2 N)) -> (Y{f32}[M N]))
;       |                                      ^^^
;       = help: write (* 2 M) or 2 * M, with spaces

(composite f ((A{f32}[M N](whre M = 1)) -> (Y{f32}[M N]))
  (return A))

(composite g ((A{f32}[M N](where M)) -> (Y{f32}[M N]))
  (return A))

(composite h ((A{f32}[M N](where M = 2 N)) -> (Y{f32}[M N]))
  (return A))
