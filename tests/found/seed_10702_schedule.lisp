; seed=10702 where=native way=schedule passes 
; checks_first: kernels/names: kernel r_1_positions1: i.0.0.0 is used before it is declared (names are declared before use)
(composite r ((I4{i64}[2] A5{f32}[1 13] A9{f32}[13 2]) -> (Y0{f32}[1 2])) (setf v8 A5) (gather (matmul v8 A9) I4 :axis 1))
