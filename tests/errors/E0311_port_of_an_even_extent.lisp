; E0311_port_of_an_even_extent.lisp:8:17: error[E0311]: `A` of `half` has the extent (* 2 M), found 7
;     8 |   (return (half A)))
;       |                 ^

(composite half ((A{T}[(* 2 M)]) -> (Y{T}[M]))
  (return (slice A (0 M))))
(composite f ((A{f32}[7]) -> (Y{f32}[3]))
  (return (half A)))
