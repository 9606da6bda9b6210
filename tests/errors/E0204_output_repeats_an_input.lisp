; E0204_output_repeats_an_input.lisp:6:31: error[E0204]: there is another port `A`
;     6 | (composite f ((A{f32}[N]) -> (A{f32}[N]))
;       |                               ^^^^^^^^^
;       = help: write only the name, `A`, to update the input in place

(composite f ((A{f32}[N]) -> (A{f32}[N]))
  (return A))
