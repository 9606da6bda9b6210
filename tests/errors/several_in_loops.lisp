; several_in_loops.lisp:21:20: error[E0201]: unknown name `ii`
;    21 |     (set z (aref A ii))
;       |                    ^^
;       = help: did you mean `i`?
; several_in_loops.lisp:22:22: error[E0201]: unknown name `jj`
;    22 |     (let ((w (aref B jj)))
;       |                      ^^
; several_in_loops.lisp:24:23: error[E0201]: unknown name `kk`
;    24 |       (setf (aref Y i kk) (sum z)))
;       |                       ^^
; several_in_loops.lisp:25:29: error[E0201]: unknown name `two`
;    25 |     (dotimes (k (floordiv N two))
;       |                             ^^^
; several_in_loops.lisp:26:27: error[E0203]: unknown operator `exq`
;    26 |       (setf (aref Y i k) (exq z)))))
;       |                           ^^^
;       = help: did you mean `exp`?

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set z (aref A ii))
    (let ((w (aref B jj)))
      (incf z w)
      (setf (aref Y i kk) (sum z)))
    (dotimes (k (floordiv N two))
      (setf (aref Y i k) (exq z)))))
