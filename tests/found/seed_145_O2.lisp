; seed=145 way=O2 compiler error 
; /usr/bin/clang-14 -O0 -std=gnu11 -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi -fPIC -march=native -mprefer-vector-width=512 -fopenmp kernel.c -shared -o product -lm failed with status 1: kernel.c:86:52: error: array subscript is not an integer const f32x16 s1 = select_f32x16(load
(composite r ((A0{f32}[M] B1{f32}[N]) -> (Y0{f32}[M N])) (dotimes (j n) (dotimes (i m) (set s1 (if (<= (aref B1 (- j)) 0.0) i (aref A0 i))) (setf (aref Y0 i j) s1))))
