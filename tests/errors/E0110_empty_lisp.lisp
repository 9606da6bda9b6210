; E0110_empty_lisp.lisp:1:1: error[E0110]: there is no composite in this file
;     1 | ; E0110_empty_lisp.lisp:1:1: error[E0110]: there is no composite in this file
;       | ^
;       = expected: (composite NAME (ports -> ports) form…)

; nothing but this
