; seed=10972 where=x86-64-v2 way=schedule passes 
; split_complex: kernels/vectors: kernel r_1: the vector axis j runs from i.1.1.n to j.n (a vector axis, or one of a tile, has a constant extent)
(composite r ((A6{c64}[8 8]) -> (Y0{c64}[] Y1{f32}[3 32])) (setf v10 (full (3 32) -1.5 :dtype f32)) (setf w9 (zeros (3 32) :dtype f32)) (dotimes (i8 3) (incf (aref w9 i8) (- (aref v10 i8) (mean (aref v10 i8))))) (return (sum A6 :axis (0 1)) w9))
