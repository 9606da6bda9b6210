"""The kinds of operators that passes look for, one bit each: an expression, and a statement that holds others, remembers which of them stand in it (`Expr.kinds`, `statement.kinds_in`), so that few are walked to find one."""

from __future__ import annotations

from typing import Final

DIVIDES: Final = 1  # floordiv and mod
CHOOSES: Final = 2  # where
MERGES: Final = 4  # bit_or
GATHERS: Final = 8
PARTIAL: Final = 16  # vload of some lanes
LONG: Final = 32  # functions that take long
ENDS: Final = 64  # first and last
QUOTIENTS: Final = 128  # div
FOLDS: Final = 256
FUNCTIONS: Final = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log1p", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
})  # those that take long  # fmt: skip
