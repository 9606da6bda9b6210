"""Instructions that a machine may have beyond the operators: a name, what its operands are, and its meaning.

    ins.dot4_u8_i8:i32(c, a, b)     c + Σ a[k]·b[k] over the 4 neighbours that each word holds

`a` and `b` are words of 32 bits (u32), element k in bits k·w … k·w + w - 1.  A runtime says in its `[instructions]` which of them it spells, and on which machines; schedules
use what the target has (`passes/schedule/steps/dots.py`).  Kernels may hold them lane by lane; in programs their operands may be vectors of words.

    tile_i8     c[16, 16] add= Σ over 16 words k of dot4_i8(0, a[16 rows, k], b[k, 16 columns])

    mma_bf16    acc add= Σ over 16 k of A[row, k]·B[column, k], for each of the rows and columns of 16 × 8 that a thread of a warp of 32 has

Kernels write that out for one thread, as a nest that a loop of the kind `matrix` holds (`ir/warps.py`); programs have a statement for it (`Matrix` in `ir/program.py`).

    ins.quotient:f32x16(x, y, r)    x / y, lane by lane, for r that is 1 / y or NaN

Division by one number after the other takes a machine longer than multiplying (`passes/share_divisors.py`).  Programs alone hold it, on vectors.

    ins.rough_exp:f32(x, least)     0 where x < least, else e^x to within 2^-13 of itself
    ins.rounded:bf16(x)             x rounded, where it is no denormal number

What is rounded to bf16 anyway needs no more digits (`passes/schedule/steps/rough.py`).

    ins.weight:f32(x, least)        0 where x < least, else e^x, for x <= 0 (NaN stays)
    ins.exp_inside:f32(x)           e^x, for |x| <= 87 (NaN stays)
    ins.exp_near:f32(x)             e^x, for |x| <= 4 (NaN stays)
    ins.sum_exp:f32x16(a, x)        a + e^x, one of `MANY` terms of a sum at least

Weights beside the largest score are of the first kind (`passes/nests/nest_kept.py`): what an exponential asks about infinities and small results is known of them; so it is of what
lies within bounds (`passes/spare_bounds.py`).  An exponential that is added up is no number of its own there.

Some machines have them for tiles too, with registers of their own.  Kernels write that out, as loops of the kind `tile` around the instruction for one lane (`passes/schedule/steps/tensors.py`); programs
have a statement for it, which goes on along the reduction (`Multiply` in `ir/program.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .dtypes import DType, bf16, f16, f32, i8, i32, numpy_dtype, u8

TINY = 2.0**-126  # the least normal number of f32 and of bf16


class Dot(NamedTuple):
    """Products of neighbours, added to a lane of `result`.  Integers wrap; sums of floats are rounded after each product or less often."""

    name: str
    left: DType  # of the elements in the second operand
    right: DType  # in the third
    result: DType
    # Floats: elements with these bits (the sign apart) and above, and zeros, are multiplied as f32 would, and so are normal ones whose exponents add up to as much.  Other elements and products, and sums
    # below the least normal number, count as zero.
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

        products = kept(_elements(a, self.left)) * kept(_elements(b, self.right))
        total = kept(c)
        for k in range(self.neighbours):
            total = kept(total + products[..., k])
        return total.astype(np.asarray(c).dtype)[()]


def _elements(words: Any, d: DType) -> Any:
    """What lies in words, the first in the lowest bits, along a last axis."""
    import numpy as np

    return np.asarray(words, "<u4")[..., None].view(numpy_dtype(d))


class Tile(NamedTuple):
    """Products of neighbours for a tile of results: `SIDE` rows by `SIDE` columns, `SIDE` words along the reduction."""

    name: str
    dot: Dot  # for each lane, in any order along the reduction
    turned: bool = False  # rows are the third operand of that

    @property
    def operands(self) -> tuple[DType, DType]:
        """The elements of rows and of columns."""
        return (self.dot.right, self.dot.left) if self.turned else (self.dot.left, self.dot.right)

    def meaning(self, c: Any, a: Any, b: Any) -> Any:
        """As `Dot.meaning`, of words of rows and of columns."""
        return self.dot.meaning(c, b, a) if self.turned else self.dot.meaning(c, a, b)


class Fragment(NamedTuple):
    """Products of 16-bit floats for a tile of results in f32, of which each thread of a warp has four: sums in any order, of 16 products and what they are added to.

    Where operands lie as `swizzle.py` says, some machines multiply for four warps at once."""

    name: str
    operand: DType
    rows: int = 16
    columns: int = 8
    depth: int = 16


class Quotient(NamedTuple):
    """The quotient of vectors whose divisor has its reciprocal computed already, or NaN in its place where that does not serve."""

    name: str

    def meaning(self, x: Any, y: Any, inverse: Any) -> Any:
        """The reciprocal changes how it is computed, not what."""
        import numpy as np

        return np.divide(x, y)


def _exp_from(x: Any, least: Any) -> Any:
    import numpy as np

    with np.errstate(over="ignore"):
        return np.where(np.less(x, least), np.zeros_like(x), np.exp(x))[()]


class RoughExp(NamedTuple):
    """e^x with a relative error below `ROUGH`; 0 below `least`, which is -87 or above: the result is 0, normal, infinite or NaN."""

    name: str

    def meaning(self, x: Any, least: Any) -> Any:
        """The error is the machine's own."""
        return _exp_from(x, least)


class Weight(NamedTuple):
    """e^x of an x that is at most 0; 0 below `least`, which is -105 or above."""

    name: str

    def meaning(self, x: Any, least: Any) -> Any:
        return _exp_from(x, least)


class ExpInside(NamedTuple):
    """e^x of an x between -`most` and `most`: the result is a normal number, or NaN."""

    name: str
    most: float

    def meaning(self, x: Any) -> Any:
        """That nothing is asked changes how it is computed, not what."""
        import numpy as np

        return np.exp(x)


class SumExp(NamedTuple):
    """A number and e^x, as one of many terms, with a relative error of 2^-24 and 2^-28 |x| more, which is less than that of the sum; a term of 2^127 or more may be infinite."""

    name: str

    def meaning(self, a: Any, x: Any) -> Any:
        """The error is the machine's own."""
        import numpy as np

        with np.errstate(over="ignore"):
            return np.add(a, np.exp(x))


class Rounded(NamedTuple):
    """A float as one of bf16, where it is no denormal number."""

    name: str

    def meaning(self, x: Any) -> Any:
        """As a cast."""
        import numpy as np

        return np.asarray(x).astype(numpy_dtype(bf16))[()]


SIDE = 16  # of a tile: rows, columns, and words along the reduction
MOST_TILES = 2  # side by side, of rows and of columns: so many sums and operands are in registers at once

INSTRUCTIONS: dict[str, Dot] = {
    d.name: d
    for d in (
        Dot("dot4_i8", i8, i8, i32),
        Dot("dot4_u8_i8", u8, i8, i32),
        # 2^-56: products of two such are multiples of 2^-126, and so are sums of them, rounded or not: none but 0 is below the least normal number
        Dot("dot2_bf16", bf16, bf16, f32, 0x2380),
    )
}
QUOTIENT = Quotient("quotient")
ROUGH = 2.0**-13
ROUGH_EXP = RoughExp("rough_exp")
ROUNDED = Rounded("rounded")
WEIGHT = Weight("weight")
EXP_INSIDE = ExpInside("exp_inside", 87.0)
EXP_NEAR = ExpInside("exp_near", 4.0)
SUM_EXP = SumExp("sum_exp")
MANY = 16
LANE_BY_LANE: dict[str, RoughExp | Rounded | Weight | ExpInside | SumExp] = {
    i.name: i for i in (ROUGH_EXP, ROUNDED, WEIGHT, EXP_INSIDE, EXP_NEAR, SUM_EXP)
}  # beside `INSTRUCTIONS`, those that kernels may hold
TILES: dict[str, Tile] = {
    t.name: t
    for t in (
        Tile("tile_i8", INSTRUCTIONS["dot4_i8"]),
        Tile("tile_u8_i8", INSTRUCTIONS["dot4_u8_i8"]),
        Tile("tile_i8_u8", INSTRUCTIONS["dot4_u8_i8"], turned=True),
        Tile("tile_bf16", INSTRUCTIONS["dot2_bf16"]),
    )
}
LANES = 32  # threads of a warp
GROUPED = "mma_group"  # whether four warps multiply together
FRAGMENTS: dict[str, Fragment] = {f.name: f for f in (Fragment("mma_bf16", bf16), Fragment("mma_f16", f16))}
