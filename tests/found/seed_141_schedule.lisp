; seed=141 way=schedule compiler error 
; /usr/bin/clang-14 -O0 -std=gnu11 -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi -fPIC -march=native -mprefer-vector-width=512 -fopenmp kernel.c -shared -o product -lm failed with status 1: kernel.c:95:88: error: array subscript is not an integer acc_b = acc_b + fold_add_f32x4(load_
(composite r ((D3{f32}[N M] E4{f32}[M K]) -> (Y0{f32}[N K])) (setf v1 (matmul D3 E4)) v1)
