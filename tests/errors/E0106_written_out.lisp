; E0106_written_out.lisp:14:3: error[E0106]: more than 1000 statements in one nest of loops, with its tensor expressions written out
;    14 |   (dotimes (i M)
;       |   ^^^^^^^^^^^^^^
;       = help: what needs no loop around it may stand outside

; 

(composite twelve ((x{f32}[L]) -> (y{f32}[L]))
  (setf y (softmax (softmax (softmax (softmax (softmax x))))))
  (setf y (softmax (softmax (softmax (softmax y)))))
  (return (softmax (softmax (softmax (softmax y))))))

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set z (twelve (twelve (twelve (twelve (twelve (aref A i)))))))
    (setf (aref Y i) (twelve (twelve (twelve (twelve (twelve z))))))))
