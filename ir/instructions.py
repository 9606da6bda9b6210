"""Instructions that a machine may have beyond the operators: a name, what its operands are, and its meaning.

    ins.dot4_u8_i8:i32(c, a, b)     c + Σ a[k]·b[k] over the 4 neighbours that each word holds

`a` and `b` are words of 32 bits (u32), element k in bits k·w … k·w + w - 1.  A runtime says in its `[instructions]` which of them it spells, and on which machines; schedules
use what the target has (`passes/schedule/dots.py`).  Kernels may hold them lane by lane; in programs their operands may be vectors of words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .dtypes import DType, bf16, f32, i8, i32, numpy_dtype, u8

TINY = 2.0**-126  # the least normal number of f32 and of bf16


class Dot(NamedTuple):
    """Products of neighbours, added to a lane of `result`.  Integers wrap; sums of floats are rounded after each product or less often."""

    name: str
    left: DType  # of the elements in the second operand
    right: DType  # in the third
    result: DType
    # Floats: elements with these bits (the sign apart) and above, and zeros, are multiplied as f32 would.  Others, and sums below the least normal number, count as zero.
    least: int = 0

    @property
    def neighbours(self) -> int:
        """Elements in a word."""
        return 32 // self.left.bits

    def meaning(self, c: Any, a: Any, b: Any) -> Any:
        """The result for one lane, or for arrays of them."""
        import numpy as np

        wide = np.float64 if self.result.is_float else np.int64

        def kept(x: Any) -> Any:
            x = np.asarray(x).astype(wide)
            return np.where(np.abs(x) < TINY, 0.0, x) if self.least else x

        total = kept(c)
        for x, y in zip(self._elements(a, self.left), self._elements(b, self.right), strict=True):
            total = kept(total + kept(x) * kept(y))
        return total.astype(np.asarray(c).dtype)[()]

    def _elements(self, words: Any, d: DType) -> list[Any]:
        import numpy as np

        bits = np.asarray(words, np.uint32)
        unsigned = np.dtype(f"u{d.bytes}")
        return [(bits >> np.uint32(k * d.bits)).astype(unsigned).view(numpy_dtype(d)) for k in range(self.neighbours)]


INSTRUCTIONS: dict[str, Dot] = {
    d.name: d
    for d in (
        Dot("dot4_i8", i8, i8, i32),
        Dot("dot4_u8_i8", u8, i8, i32),
        # 2^-56: products of two such are multiples of 2^-126, and so are sums of them, rounded or not: none but 0 is below the least normal number
        Dot("dot2_bf16", bf16, bf16, f32, 0x2380),
    )
}
