; seed=12897 where=native way=schedule passes 
; split_complex: kernels/accumulation: kernel r_3: iterations of i.b.0.0 (parallel) accumulate into acc[i.b.0.1 * 5 + i.b.1] (a parallel axis accumulates nothing into a place that does not depend on it)
(composite r ((A5{i32}[2 M]) -> (A5)) (setf v6 (sign A5)) (setf w4 (zeros (2 M) :dtype i32)) (dotimes (i3 2) (dotimes (j3 M) (set s3 (aref v6 i3 j3)) (while (< s3 9) :max 6 (set s3 1)) (setf (aref w4 i3 j3) s3))) (cummax w4 :axis 1))
