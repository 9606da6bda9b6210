"""Infix and prefix spellings of rows of `primops.OPS`, and how tightly they bind.

`|` `^` `&` bind less than comparisons (as the guards `i < M & j < N` want it), comparisons less than shifts, sums and products; comparisons do not chain, the others group
to the left.

On indices (dtype i64) subtraction is what it is in Python on an `Expr`: `a - b` is `a + b * -1` and `-a` is `a * -1`, so the rows `sub` and `neg` on i64 are written by name.
"""

from __future__ import annotations

INFIX: dict[str, tuple[str, int]] = {
    "bit_or": ("|", 1), "bit_xor": ("^", 2), "bit_and": ("&", 3),
    "equal": ("==", 4), "not_equal": ("!=", 4), "less_than": ("<", 4), "less_equal": ("<=", 4),
    "shift_left": ("<<", 5), "shift_right": (">>", 5), "add": ("+", 6), "sub": ("-", 6),
    "mul": ("*", 7), "div": ("/", 7), "floordiv": ("//", 7), "mod": ("%", 7),
}  # fmt: skip
COMPARISON, SUM, PREFIX, ATOM = 4, 6, 8, 9
ROW = {symbol: (name, level) for name, (symbol, level) in INFIX.items()}
