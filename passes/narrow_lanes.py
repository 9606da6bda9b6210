"""narrow_lanes: program → program.  Positions that are data, a number in each lane, are as narrow as what stands beside them.

    let p: i64x16 = where(c, broadcast.16(5), broadcast.16(4))
    let q: i64x16 = where(p == broadcast.16(4), p + broadcast.16(1), p)
    z[i] = where(p == broadcast.16(4), a, b)                                 with a name c, and a, b of i16x16
                                            →
    let p: i16x16 = where(c, broadcast.16(5:i16), broadcast.16(4:i16))
    let q: i16x16 = where(p == broadcast.16(4:i16), p + broadcast.16(1:i16), p)
    z[i] = where(~c, a, b)

Sixteen lanes of 64 bits are four registers and their masks others than those of the data; gcc takes them apart, lane by lane.  What lies between two numbers that are known here (literals, choices among them, their
sums, integers of fewer bits) takes the width of the narrowest data in as many lanes, or the next one in which all such names of a function fit, so no lane wraps.  What is not known so keeps its 64 bits, and its narrow
operands are widened for it.

A comparison that the ranges of its sides decide is a literal, and one of a choice by `c` that each branch decides is `c`, or its opposite.

Sorted rows of 9 numbers of 16 bits in the first cache, AVX2: clang 0.28 of the time, gcc 0.03, and compiling them 0.05.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.dtypes import DType, i8, i16, i32
from ..ir.expr import FALSE, INDEX, TRUE, Expr, broadcast, call, cast, const, var
from ..ir.program import Array, Define, Function, Program, StoreTo, map_block, map_expressions, statements
from ..ir.record import replace
from ..ir.target import Options, Target
from ..ir.walks import missing, rebuild

WIDTHS = (i8, i16, i32)
COMPARISONS = frozenset({"less_than", "less_equal", "equal", "not_equal"})


def narrow_lanes(program: Program, target: Target, options: Options) -> Program:
    """See the head of this file."""
    functions = tuple(_function(f, target.vector_bytes * 8) for f in program.functions)
    return program.with_functions(functions)


def _counts_in_lanes(s: Define, register: int) -> bool:
    """Whether it names positions in more lanes than a register of so many bits holds."""
    return not s.mutable and s.dtype.lanes * INDEX.bits > register and s.dtype.lanes > 1 and s.dtype.element is INDEX


def _function(f: Function, register: int) -> Function:
    lets = [s for s in statements(f.body) if isinstance(s, Define) and _counts_in_lanes(s, register)]
    if not lets:
        return f
    ranges = _Walk(f, register, dict.fromkeys((s.dtype.lanes for s in lets), i32)).ranges
    widths, beside = dict[int, DType](), _bits_beside(f)
    for lanes in dict.fromkeys(s.dtype.lanes for s in lets):
        found = [ranges[s.name] for s in lets if s.dtype.lanes == lanes and s.name in ranges]
        if found:  # 32 bits always do
            least = min(beside[lanes], i32.bits)
            widths[lanes] = next(d for d in WIDTHS if d.bits >= least and all(r.within(d) for r in found))
    return _Walk(f, register, widths).function() if widths else f


def _bits_beside(f: Function) -> dict[int, int]:
    """By the number of lanes, the bits of the narrowest data in as many; short floats are computed with in 32."""
    found: dict[int, int] = {}
    for s in statements(f.body):
        d = s.dtype if isinstance(s, (Define, Array)) else s.value.dtype if isinstance(s, StoreTo) else INDEX
        if d.lanes > 1 and d.kind != "bool":
            found[d.lanes] = min(max(d.bits, 32) if d.is_float else d.bits, found.get(d.lanes, INDEX.bits))
    return found


class _Range(NamedTuple):
    """Both ends belong to it."""

    low: int
    high: int

    def within(self, d: DType) -> bool:
        return d.min <= self.low and self.high <= d.max


class _Lanes(NamedTuple):
    """What an expression becomes.  With a range it is narrow, and that is what its lanes lie between."""

    value: Expr
    range: _Range | None = None


class _Walk:
    """Over the statements of a function, in order, under the assumption that positions in so many lanes fit in these types."""

    def __init__(self, f: Function, register: int, widths: dict[int, DType]) -> None:
        self.f, self.widths = f, widths
        self.done: dict[Expr, _Lanes] = {}
        self.ranges: dict[str, _Range] = {}
        self.lets: dict[str, Expr] = {}  # what immutable names are
        self.narrow: dict[str, Define] = {}
        for s in statements(f.body):
            if isinstance(s, Define) and not s.mutable and s.value is not None:
                self.lets[s.name] = s.value
                if _counts_in_lanes(s, register):
                    found = self.lanes(s.value)
                    if found.range is not None:
                        self.ranges[s.name] = found.range
                        self.narrow[s.name] = replace(s, dtype=found.value.dtype, value=found.value)

    def function(self) -> Function:
        body = map_expressions(self.f.body, self.wide)
        return replace(self.f, body=map_block(body, lambda s: (self.narrow[s.name],) if isinstance(s, Define) and s.name in self.narrow else None))

    def lanes(self, root: Expr) -> _Lanes:
        for n in missing(root, self.done):
            self.done[n] = self.narrowed(n) or self.compared(n) or self.kept(n)
        return self.done[root]

    def wide(self, e: Expr) -> Expr:
        """What an expression becomes, in its own type."""
        found = self.lanes(e)
        if found.range is None:
            return found.value
        return e if e.op in ("broadcast", "ramp") else cast(e.dtype, found.value)

    def kept(self, n: Expr) -> _Lanes:
        """The operator as it is; a cast is one from what is narrow."""
        if n.op == "cast" and (found := self.done[n.args[0]]).range is not None:
            return _Lanes(cast(n.dtype, found.value))
        return _Lanes(rebuild(n, tuple([self.wide(a) for a in n.args])) if n.args else n)

    def narrowed(self, n: Expr) -> _Lanes | None:
        """A position whose lanes fit, and those of all that it is computed of."""
        width = self.widths.get(n.dtype.lanes) if n.dtype.element is INDEX else None
        if width is None:
            return None
        to, args = width.vector(n.dtype.lanes), [self.done[a] for a in n.args]
        match n.op:
            case "broadcast" if n.args[0].is_const:
                value, range_ = const(n.args[0].attr, width), _Range(n.args[0].attr, n.args[0].attr)
                return _Lanes(broadcast(value, n.dtype.lanes), range_) if range_.within(width) else None
            case "ramp":
                return _fitting(cast(to, n), _Range(0, n.dtype.lanes - 1), width)
            case "var" if n.attr in self.ranges:
                return _Lanes(var(n.attr, to), self.ranges[n.attr])
            case "cast" if n.args[0].dtype.kind in ("bool", "int", "uint"):
                source = n.args[0].dtype.element
                return _fitting(cast(to, args[0].value), _Range(int(source.min), int(source.max)), width)
            case "where" if args[1].range is not None and args[2].range is not None:
                (low, high), (low2, high2) = args[1].range, args[2].range
                chosen = call("where", self.wide(n.args[0]), args[1].value, args[2].value)
                return _Lanes(chosen, _Range(min(low, low2), max(high, high2)))
            case "add" | "sub" | "mul" | "min" | "max" if args[0].range is not None and args[1].range is not None:
                return _fitting(call(n.op, args[0].value, args[1].value), _ARITHMETIC[n.op](args[0].range, args[1].range), width)
            case "neg" if args[0].range is not None:
                return _fitting(call("neg", args[0].value), _Range(-args[0].range.high, -args[0].range.low), width)
            case _:
                return None

    def compared(self, n: Expr) -> _Lanes | None:
        """A comparison of what is narrow, and what is known of it."""
        if n.op not in COMPARISONS:
            return None
        a, b = (self.done[x] for x in n.args)
        if a.range is None or b.range is None:
            return None
        answer = _decided(n.op, a.range, b.range)
        if answer is None and (choice := self.branches(n.args[0])) is not None:
            condition, *sides = choice
            answers = [_decided(n.op, r, b.range) for x in sides if (r := self.done[x].range) is not None]
            if answers == [True, False]:
                return _Lanes(self.wide(condition))
            if answers == [False, True]:
                return _Lanes(call("bit_not", self.wide(condition)))
        return _Lanes(call(n.op, a.value, b.value) if answer is None else broadcast(TRUE if answer else FALSE, n.dtype.lanes))

    def branches(self, e: Expr) -> tuple[Expr, ...] | None:
        """The choice that an expression is, or what its name stands for: one by a name that stays."""
        if e.op == "var":
            e = self.lets.get(e.attr, e)
            if e.op == "where" and not (e.args[0].op == "var" and e.args[0].attr in self.lets):
                return None
        return e.args if e.op == "where" and e.args[0].dtype.lanes > 1 else None


def _fitting(value: Expr, range_: _Range, width: DType) -> _Lanes | None:
    return _Lanes(value, range_) if range_.within(width) else None


def _product(a: _Range, b: _Range) -> _Range:
    ends = [x * y for x in a for y in b]
    return _Range(min(ends), max(ends))


_ARITHMETIC = {
    "add": lambda a, b: _Range(a.low + b.low, a.high + b.high),
    "sub": lambda a, b: _Range(a.low - b.high, a.high - b.low),
    "mul": _product,
    "min": lambda a, b: _Range(min(a.low, b.low), min(a.high, b.high)),
    "max": lambda a, b: _Range(max(a.low, b.low), max(a.high, b.high)),
}


def _decided(op: str, a: _Range, b: _Range) -> bool | None:
    """What a comparison of anything between these ends gives; None where it depends."""
    match op:
        case "less_than":
            return True if a.high < b.low else False if a.low >= b.high else None
        case "less_equal":
            return True if a.high <= b.low else False if a.low > b.high else None
        case _:
            if a.high < b.low or b.high < a.low:
                return op == "not_equal"
            return op == "equal" if a.low == a.high == b.low == b.high else None
