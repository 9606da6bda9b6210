"""Every form of the language's tables beside NumPy: what `test_language_forms.py` runs, for each dtype that the form accepts.

A form is a piece of code over these ports (of the dtype at hand where no other is said):

    A B C [M N]   V [N]   W [N K]   S [N N]   X [2 M N]   z []        P Q bool [M N]   I i64 [K] positions below M   J i64 [M K] positions below N
    G [H F R E]   U [F O L O]  (images and filters)

Integers are drawn small, so that NumPy's own 64 bits hold what wraps in narrower ones; floats are eighths (quarters in 8 bits), exact in every dtype.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

SIZES = {"M": 3, "N": 5, "K": 4, "H": 2, "F": 4, "R": 7, "E": 6, "O": 2, "L": 3}
PORTS = {
    "A": "A{T}[M N]", "B": "B{T}[M N]", "C": "C{T}[M N]", "V": "V{T}[N]", "W": "W{T}[N K]", "S": "S{T}[N N]", "X": "X{T}[2 M N]", "z": "z{T}[]",
    "P": "P{bool}[M N]", "Q": "Q{bool}[M N]", "I": "I{i64}[K]", "J": "J{i64}[M K]", "G": "G{T}[H F R E]", "U": "U{T}[F O L O]",
}  # fmt: skip

FLOAT, SIGNED, UNSIGNED, BOOL = ("f64", "f32", "f16", "bf16"), ("i64", "i32", "i16", "i8"), ("u64", "u32", "u16", "u8"), ("bool",)
INTEGER = (*SIGNED, *UNSIGNED)
NUMBER, BITS = (*FLOAT, *INTEGER), (*INTEGER, *BOOL)
ANY = (*NUMBER, *BOOL)
ONCE = ("f32",)  # forms whose value has nothing to do with the dtype at hand
SMALL, COMPLEX = ("f8e4m3", "f8e5m2"), ("c64",)
EVERY = (*ANY, *SMALL, *COMPLEX)
TAKES_COMPLEX = frozenset(
    [
        "+",
        "*",
        "-",
        "/",
        "fma",
        "wmma",
        "recip",
        "neg",
        "=",
        "/=",
        "where",
        "if",
        "sum",
        "prod",
        "mean",
        "any",
        "all",
        "cumsum",
        "cumprod",
        "matmul",
        "einsum",
        "conv1d",
        "conv2d",
        "conv3d",
        "reshape",
        "transpose",
        "expand",
        "squeeze",
        "unsqueeze",
        "slice",
        "pad",
        "concat",
        "stack",
        "split",
        "flip",
        "roll",
        "tile",
        "gather",
        "take-along",
        "scatter",
        "triu",
        "tril",
        "unfold",
        "aref",
        "full",
        "ones",
        "zeros",
    ]
)  # heads; all of a form's numbers are then complex
NOT_COMPLEX = re.compile(r"\((?:abs|>|<|mod)|:combine m[ai]|-inf")


@dataclass(frozen=True)
class Form:
    """`expected` is called with the ports it names, as float64, int64 or bool arrays; `out` is the result's dtype, T the one at hand."""

    code: str
    expected: Callable[..., Any]
    of: tuple[str, ...] = NUMBER
    out: str | tuple[str, ...] = "T"

    @property
    def head(self) -> str:
        return re.findall(r"[^\s()]+", self.code)[0]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What a form of floats takes, small floats take too, and complex numbers where they have what it needs."""
        if not set(FLOAT) <= set(self.of):
            return self.of
        small = SMALL if "-inf" not in self.code and "isinf" not in self.code else SMALL[1:]  # f8e4m3 has no infinities
        return (*self.of, *small, *(COMPLEX if self.head in TAKES_COMPLEX and not NOT_COMPLEX.search(self.code) else ()))


def wide(dtype: str) -> str:
    """The dtype of sums and products."""
    return "i64" if dtype == "bool" or (dtype in INTEGER and dtype not in ("i64", "u64")) else dtype


ARITHMETIC = [
    Form("(+ A)", lambda A: A), Form("(+ A B)", lambda A, B: A + B), Form("(+ A B C 2)", lambda A, B, C: A + B + C + 2),
    Form("(* A B)", lambda A, B: A * B), Form("(* A B 3 C)", lambda A, B, C: A * B * 3 * C), Form("(+ A V)", lambda A, V: A + V), Form("(* z A)", lambda z, A: z * A),
    Form("(- A)", lambda A: -A), Form("(- A B)", lambda A, B: A - B), Form("(- A B 1)", lambda A, B: A - B - 1), Form("(+ X A)", lambda X, A: X + A),
    Form("(/ A)", lambda A: 1 / A, FLOAT), Form("(/ A B)", lambda A, B: A / B, FLOAT), Form("(/ A 2 (+ 4 V))", lambda A, V: A / 2 / (4 + V), FLOAT),
    Form("(fma A B C)", lambda A, B, C: A * B + C), Form("(wmma A B C)", lambda A, B, C: A * B + C), Form("(mod A 3)", lambda A: A % 3),
    Form("(mod A B)", lambda A, B: safe(np.mod, A, B)), Form("(floordiv A B)", lambda A, B: safe(np.floor_divide, A, B)), Form("(floordiv A 2)", lambda A: A // 2),
    Form("(pow A 3)", lambda A: A**3), Form("(pow A 0)", lambda A: A**0), Form("(pow A -1)", lambda A: 1 / A, FLOAT),
    Form("(pow (abs A) B)", lambda A, B: np.abs(A) ** B, FLOAT), Form("(pow A (mod B 4))", lambda A, B: A ** (B % 4), INTEGER),
    Form("(neg A)", lambda A: -A), Form("(abs A)", abs), Form("(sign A)", np.sign), Form("(recip A)", lambda A: 1 / A, FLOAT),
    Form("(max A B)", np.maximum, ANY[:-1]), Form("(min A B 1)", lambda A, B: np.minimum(np.minimum(A, B), 1)), Form("(max A B C)", lambda A, B, C: np.maximum(np.maximum(A, B), C)),
    Form("(floor A)", np.floor, FLOAT), Form("(ceil A)", np.ceil, FLOAT), Form("(round A)", np.rint, FLOAT), Form("(trunc A)", np.trunc, FLOAT),
    Form("(round (+ (iota N) (* V 0) 0.5))", lambda V: np.rint(np.arange(5) + 0.5), FLOAT),
    *[Form(f"({n} A)", f, FLOAT) for n, f in {"exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan,
        "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "erf": special.erf}.items()],
    *[Form(f"({n} (+ (abs A) 1))", lambda A, f=f: f(abs(A) + 1), FLOAT) for n, f in {"log": np.log, "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x), "acosh": np.arccosh}.items()],
    *[Form(f"({n} (* 0.25 A))", lambda A, f=f: f(A / 4), FLOAT) for n, f in {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}.items()],
]  # fmt: skip


def safe(f: Callable[..., Any], a: Any, b: Any) -> Any:
    """Integer division by 0 is 0; of floats it is NumPy's."""
    return f(a, b) if a.dtype.kind == "f" else np.where(b == 0, 0, f(a, np.where(b == 0, 1, b)))


COMPARE = [
    Form("(< A B)", np.less, NUMBER, "bool"), Form("(<= A B)", np.less_equal, NUMBER, "bool"), Form("(> A B)", np.greater, NUMBER, "bool"),
    Form("(>= A B)", np.greater_equal, NUMBER, "bool"), Form("(= A B)", np.equal, ANY, "bool"), Form("(/= A B)", np.not_equal, ANY, "bool"),
    Form("(< 0 A 2)", lambda A: (A > 0) & (A < 2), NUMBER, "bool"), Form("(= A B C)", lambda A, B, C: (A == B) & (B == C), ANY, "bool"),
    Form("(where P A B)", lambda P, A, B: np.where(P, A, B), ANY), Form("(where (> A 1) A 0)", lambda A: np.where(A > 1, A, 0)),
    Form("(if P A B)", lambda P, A, B: np.where(P, A, B), ANY), Form("(where (< (iota N) 2) A 7)", lambda A: np.where(np.arange(5) < 2, A, 7)),
    Form("(and P Q)", lambda P, Q: P & Q, ONCE, "bool"), Form("(or P Q (= A B))", lambda P, Q, A, B: P | Q | (A == B), ONCE, "bool"), Form("(not P)", lambda P: ~P, ONCE, "bool"),
    Form("(isnan (/ A A))", lambda A: A == 0, FLOAT, "bool"), Form("(isinf (/ A 0))", lambda A: A != 0, FLOAT, "bool"),
    Form("(logand A B)", lambda A, B: A & B, BITS), Form("(logor A B C)", lambda A, B, C: A | B | C, BITS), Form("(logxor A B)", lambda A, B: A ^ B, BITS),
    Form("(lognot A)", lambda A: ~A, BITS), Form("(ash A 2)", lambda A: A << 2, INTEGER), Form("(ash A -1)", lambda A: A >> 1, INTEGER),
    Form("(ash A (mod B 3))", lambda A, B: A << (B % 3), INTEGER), Form("(ash A (neg (mod B 3)))", lambda A, B: A >> (B % 3), SIGNED),
]  # fmt: skip

COMPLEXES = [
    Form("(complex A B)", lambda A, B: A + 1j * B, ONCE, "c64"), Form("(real A)", np.real, COMPLEX, "f32"), Form("(imag A)", np.imag, COMPLEX, "f32"), Form("(conj A)", np.conj, COMPLEX),
    Form("(abs A)", np.abs, COMPLEX, "f32"), Form("(angle (+ A 8))", lambda A: np.angle(A + 8), COMPLEX, "f32"), Form("(cast c64 A)", lambda A: A, ANY, "c64"), Form("(cast c64 A)", lambda A: A, SMALL, "c64"),
    Form("(exp A)", np.exp, COMPLEX), Form("(log (+ A 8))", lambda A: np.log(A + 8), COMPLEX), Form("(sqrt (+ A 8))", lambda A: np.sqrt(A + 8), COMPLEX), Form("(pow A 3)", lambda A: A**3, COMPLEX),
    Form("(pow (+ A 8) B)", lambda A, B: (A + 8) ** B, COMPLEX), Form("(real (* A (conj B)))", lambda A, B: (A * B.conj()).real, COMPLEX, "f32"), Form("(+ (* 2 A) 0.5)", lambda A: 2 * A + 0.5, COMPLEX),
    Form("(matmul A (conj (transpose B)))", lambda A, B: A @ B.conj().T, COMPLEX), Form("(sum (real A) :axis 0)", lambda A: A.real.sum(0), COMPLEX, "f32"),
    Form("(where (> (real A) 0) A 0)", lambda A: np.where(A.real > 0, A, 0), COMPLEX), Form("(complex (real A) (+ 1 (imag A)))", lambda A: A + 1j, COMPLEX),
]  # fmt: skip

REDUCE = [
    Form("(sum A)", np.sum, ANY, "sum"), Form("(sum A :axis 1)", lambda A: A.sum(1), ANY, "sum"), Form("(sum X :axis (0 -1) :keepdims t)", lambda X: X.sum((0, 2), keepdims=True), ANY, "sum"),
    Form("(prod A :axis 0)", lambda A: A.prod(0), ANY, "sum"), Form("(max A)", np.max, ANY), Form("(max A :axis -1 :keepdims t)", lambda A: A.max(-1, keepdims=True), ANY),
    Form("(min A :axis (0 1))", np.min, ANY), Form("(min X :axis 1)", lambda X: X.min(1), ANY), Form("(mean A)", np.mean, FLOAT), Form("(mean A :axis 0 :keepdims t)", lambda A: A.mean(0, keepdims=True), FLOAT),
    Form("(argmax A)", np.argmax, ANY, "i64"), Form("(argmax A :axis 1)", lambda A: A.argmax(1), ANY, "i64"), Form("(argmin A :axis 0 :keepdims t)", lambda A: A.argmin(0)[None], ANY, "i64"),
    Form("(any A :axis 1)", lambda A: (A != 0).any(1), ANY, "bool"), Form("(all A)", lambda A: (A != 0).all(), ANY, "bool"), Form("(any P)", np.any, ONCE, "bool"),
    Form("(logsumexp A :axis 1)", lambda A: special.logsumexp(A, 1), FLOAT), Form("(logsumexp A)", special.logsumexp, FLOAT),
    Form("(logsumexp A :axis 0 :keepdims t)", lambda A: special.logsumexp(A, 0, keepdims=True), FLOAT),
    Form("(var A)", np.var, FLOAT), Form("(var A :axis 1 :correction 1)", lambda A: A.var(1, ddof=1), FLOAT), Form("(var X :axis (0 2) :keepdims t)", lambda X: X.var((0, 2), keepdims=True), FLOAT),
    Form("(cumsum A :axis 1)", lambda A: A.cumsum(1), ANY, "sum"), Form("(cumsum A :axis 0)", lambda A: A.cumsum(0), ANY, "sum"), Form("(cumprod A :axis 1)", lambda A: A.cumprod(1), ANY, "sum"),
    Form("(cummax A :axis 1)", lambda A: np.maximum.accumulate(A, 1)), Form("(cummin A :axis 0)", lambda A: np.minimum.accumulate(A, 0)),
]  # fmt: skip


def convolved(x: Any, k: Any, groups: int, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]) -> Any:
    """Position by position, as the formula says."""
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    b, (o, g, r, q) = len(x), k.shape
    reach = [d * (n - 1) + 1 for d, n in zip(dilation, (r, q), strict=True)]
    h, w = ((n - m) // s + 1 for n, m, s in zip(x.shape[2:], reach, stride, strict=True))
    y = np.zeros((b, o, h, w), x.dtype)
    for c in range(o):
        first = c // (o // groups) * g
        for i, j in np.ndindex(h, w):
            a, e = i * stride[0], j * stride[1]
            patch = x[:, first : first + g, a : a + reach[0] : dilation[0], e : e + reach[1] : dilation[1]]
            y[:, c, i, j] = (patch * k[c]).sum((1, 2, 3))
    return y


CONTRACT = [
    Form("(matmul A W)", np.matmul), Form("(matmul X W)", np.matmul), Form("(matmul A V)", np.matmul), Form("(matmul V W)", np.matmul), Form("(matmul V V)", lambda V: V @ V),
    Form("(matmul (> A 0) (> W 0))", lambda A, W: (A > 0) @ (W > 0), NUMBER, "bool"), Form('(einsum "ij,jk->ik" A W)', lambda A, W: A @ W), Form('(einsum "ij->ji" A)', np.transpose, ANY),
    Form('(einsum "ij->" A)', np.sum), Form('(einsum "ij->j" A)', lambda A: A.sum(0)), Form('(einsum "ii" S)', np.trace), Form('(einsum "ii->i" S)', np.diagonal, ANY),
    Form('(einsum "hij,ij,j->hi" X A V)', lambda X, A, V: np.einsum("hij,ij,j->hi", X, A, V)), Form('(einsum "ij,j,j,k->ik" A V V V)', lambda A, V: np.einsum("ij,j,j,k->ik", A, V, V, V)),
    Form('(einsum "...j,jk" X W)', np.matmul), Form('(einsum "...ij,...ij->..." X A)', lambda X, A: (X * A).sum((1, 2))), Form('(einsum "i,j->ij" V V)', lambda V: np.outer(V, V)),
    Form('(einsum "ij,ij" A B)', lambda A, B: (A * B).sum()), Form('(einsum "ij,kl->i" A S)', lambda A, S: A.sum(1) * S.sum()),
    Form("(conv2d G U :groups 2 :stride (2 1) :padding (1 2) :dilation (1 2))", lambda G, U: convolved(G, U, 2, (2, 1), (1, 2), (1, 2))),
    Form("(conv2d (slice G _ (0 2)) U)", lambda G, U: convolved(G[:, :2], U, 1, (1, 1), (0, 0), (1, 1))),
    Form("(conv1d X (slice (slice U (0 3) _ _ 0) _ (0 1) _) :padding 1 :groups 3 :stride 2)", lambda X, U: convolved(X[:, :, None], U[:3, :1, None, :, 0], 3, (1, 2), (0, 1), (1, 1))[:, :, 0]),
    Form("(conv3d (unsqueeze G :axis 2) (unsqueeze U :axis 2) :groups 2)", lambda G, U: convolved(G, U, 2, (1, 1), (0, 0), (1, 1))[:, :, None]),
]  # fmt: skip
