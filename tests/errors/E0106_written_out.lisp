; 

(composite twelve ((x{f32}[L]) -> (y{f32}[L]))
  (setf y (softmax (softmax (softmax (softmax x)))))
  (setf y (softmax (softmax (softmax (softmax y)))))
  (return (softmax (softmax (softmax (softmax y))))))

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set z (twelve (twelve (twelve (twelve (twelve (aref A i)))))))
    (setf (aref Y i) (twelve (twelve (twelve (twelve (twelve z))))))))
