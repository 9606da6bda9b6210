; seed=105518 way=O0 mismatch row O0 N=7 K=0
; expected error code 3 (index out of range), the kernel gave 0
(composite r ((I0{i64}[N] B1{i32}[K]) -> (Y0{i32}[N])) (setf v0 (gather B1 I0 :axis 0)) (- v0 v0))
