; seed=14052 where=native way=schedule passes 
; legalize: kernels/expressions: kernel r_0: ins.rounded:f32(ins.rough_exp:f32(tile4[i5.0 * 4 + i5.1] - t8, -62.3828125:f32)): rounded of f32 to f32 (expressions are well typed: conditions bool, positions and bounds i64)
(composite r ((A5{bool}[2] A6{bool}[3] A7{bool}[2] A10{bf16}[2 3] A11{bf16}[16 3] A14{bf16}[16 1] ZM{bool}[M] ZN{bool}[N] ZK{bool}[K]) -> (Y0{bf16}[2 1])) (setf v12 (einsum "id,jd->ij" A10 A11)) (setf v13 (exp (- v12 (max v12 :axis -1 :keepdims t)))) (matmul (- (/ v13 (sum v13 :axis -1 :keepdims t)) (softmax (* 0.5 v12))) A14))
