; seed=10495 way=O2 passes 
; cascade: graph/dtypes: %10 = const f32[]: the literal 0 of f32 is a Python int (operands agree in dtype and the operator accepts them)
(composite r ((A6{f32}[2]) -> (Y0{f32}[7])) (setf v7 A6) (setf hs3 v7) (setf w4 (zeros (7 2) :dtype f32)) (dotimes (i3 7) (setf hs3 hs3) (setf (aref w4) hs3)) (slice (tile (logsumexp w4 :axis 1) 2) (7 (* 2 7))))
