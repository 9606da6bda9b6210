; seed=113299 way=schedule passes 
; split_complex: kernels/vectors: kernel r_0: the vector axis i.1.b runs from 0 to min(5, K - (i.0.0 * 4 + i.0.1) * 5) (a vector axis has a constant extent)
(composite r ((E4{f32}[K] F5{f32}[K] G6{f32}[N M] U0{f32}[M]) -> (U0 Y1{f32}[M N])) (dotimes (i m) (set t2 0.0) (dotimes (p k) (maxf t2 (if (= p 0) i (- (aref E4 p) (aref F5 p))))) (incf (aref U0 i) t2)) (loop (j 1 -1) (loop (i 0 m) (incf (aref Y1 i j)))))
