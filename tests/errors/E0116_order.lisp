; E0116_order.lisp:9:27: error[E0116]: <0 2> is not an order of the 2 axes of `A`
;     9 | (composite f ((A{f32}[M N]<0 2> ) -> (Y{f32}[M N]))
;       |                           ^^^^^
;       = expected: each of 0 1 once, outermost first
; E0116_order.lisp:12:29: error[E0116]: a port with `~` is row-major
;    12 | (composite g ((A{f32}[~ M N]<2 1 0>) -> (Y{f32}[~ M N]))
;       |                             ^^^^^^^

(composite f ((A{f32}[M N]<0 2> ) -> (Y{f32}[M N]))
  (return A))

(composite g ((A{f32}[~ M N]<2 1 0>) -> (Y{f32}[~ M N]))
  (return A))
