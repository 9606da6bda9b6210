; E0607_output_by_another_case.lisp:10:12: error[E0607]: `s` is a whole tensor; inside a loop its elements are assigned
;    10 |       (set s 0.0)
;       |            ^
;       = note: `s` is the output `S`: names that differ in case, - and _ only are one name
;       = help: call it something else

(composite f ((A{f32}[M N]) -> (S{f32}[M]))
  (dotimes (i M)
    (let ((t 3))
      (set s 0.0)
    (dotimes (j N)
      (setf s (+ s (aref A i j))))
    (setf (aref S i) s))))
