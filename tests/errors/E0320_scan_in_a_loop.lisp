; E0320_scan_in_a_loop.lisp:8:24: error[E0320]: this needs a local array whose extents change from one iteration to the next
;     8 |     (setf (aref Y i 0) (sum (cumsum (slice A i (0 (min i N))) :axis 0)))))
;       |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
;       = help: take whole axes, and choose by `where` what counts

(composite f ((A{f32}[M N] B{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (setf (aref Y i 0) (sum (cumsum (slice A i (0 (min i N))) :axis 0)))))
