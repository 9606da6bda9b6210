; seed=41000322 where=native way=schedule passes 
; carry: kernels/names: kernel r_0: by2 is read before it is declared (names are declared before use)
(composite r ((A8{f32}[16 (+ (* 1 (- 2 1)) 4)] A9{f32}[2 16] A10{f32}[3 16] A14{f32}[3 4]) -> (Y0{bool}[16 2 4])) (setf v12 (einsum "id,jd->ij" A9 A10)) (setf v13 (exp (- v12 (max v12 :axis -1 :keepdims t)))) (>= (unfold A8 :size 4 :step 1) (matmul v13 A14)))
