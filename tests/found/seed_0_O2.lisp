; seed=0 way=O2 compiler error 
; /usr/bin/clang-14 -O0 -std=gnu11 -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi -fPIC -march=native -mprefer-vector-width=512 -fopenmp kernel.c -shared -o product -lm failed with status 1: kernel.c:92:91: error: array subscript is not an integer store_f32x16(&acc[i_1_b_0 * 16], loa
(composite r ((A0{f32}[N M] U0{f32}[N]) -> (U0)) (dotimes (i m) (dotimes (j n) (incf (aref U0 j) (aref A0 j i)))))
