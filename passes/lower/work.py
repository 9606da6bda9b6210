"""How much work a loop nest holds, roughly, as a polynomial of the sizes.

An estimate only: `x // 8` counts as x/8 and `min(8, x)` as 8, so that the trips of split loops multiply back to the whole axis: ceil(K/512) · min(512, …) ≈ K.  So do the trips of loops over
pieces whose length has a name: ceil(K/length) · length ≈ K; where only their number counts, the condition asks for it by its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Final

from ...ir import program as p
from ...ir.dtypes import INDEX
from ...ir.expr import TRUE, ZERO, Expr, call, product, size, total, var
from ...ir.instructions import SIDE, WEIGHT
from ...ir.record import replace
from ...ir.walks import postorder

# Operations, most of them on vectors, that take longer than waking the threads does.  (Golden Cove, by two threads, f32: calls one right after the other, a microsecond: products 48³ 0.8, 56³ 1.1, 64³ 1.3 ×, sums of 100 rows
# of 512 as fast, of 128 1.2 ×, layer norm of 32 rows of 512 1.1 ×; with as much as a call from Python between them two to three: 64³ 0.83 ×.
# Zen 4, 64³, calls up to 5 µs apart: 1.6 × where two virtual cores are two, 0.6 × where they are two threads of one, which no program is told.)
FORK = 200_000
USUAL: Final = 256  # an extent: what is done so many times as often is most of the work
MEMORY: Final = 12  # operations that a vector is worth which each iteration moves anew, from or to some cache
FAR: Final = 8  # such operations of a load at a position that data decides: it may be in no near cache, and nobody asks for it ahead of time
RAGGED: Final = 16  # trips of a loop of which data says how often it runs
EPSILON: Final = 1e-9  # what divisions may be off by, so that a quotient that is whole counts as whole
ENOUGH: Final = 1 << 50  # more than a fork is worth whatever there is of it, and a literal
MOST: Final = 1e60  # more than any amount of work; products of extents may be as large as they like
LEFT: Final = "what is left"  # no name: the trips of a loop that begins where others have left off
CALL: Final = 110  # of one number, by libm
COSTS: Final = {
    "exp": 40, "exp2": 40, "expm1": 150, "log": 60, "log2": 65, "log1p": 130, "pow": 1100,
    "sin": 53, "cos": 59, "tan": 200, "asin": 180, "acos": 195, "atan": 350, "sinh": 160, "cosh": 110, "tanh": 68, "erf": 75,
}  # what a vector of 64 bytes takes longer by than its loads and stores, by one thread in the second cache, where 300000 operations of products take 13.8 µs (Golden Cove, f32)  # fmt: skip
DIVIDED: Final = {"div": 30, "sqrt": 60}  # the same

Estimate = dict[tuple[str, ...], float]  # sorted names -> coefficient


def little_work(body: p.Block, names: dict[str, Expr]) -> Expr | None:
    """The condition that the statements are not worth a fork, or are one iteration of a loop; None where they always are.  `names`: positions that have one outside."""
    known: dict[str, Estimate] = {}
    for name, value in names.items():
        known[name] = _bound(_estimate(value, known), known)
    pieces = {name: found for name, value in names.items() if (found := _pieces(value, known)) is not None}
    lengths = {length for _, length in pieces.values()}
    kept: dict[str, Estimate] = {name: {(name,): 1} for name in known if name in pieces or name in lengths}
    asked: dict[str, Expr] = {name: var(name) for name in pieces}
    loop = body[0] if len(body) == 1 and isinstance(body[0], p.For) else None
    turns = None if loop is None else loop.stop - loop.start
    if (
        loop is not None and turns is not None and loop.start.op == "var" and loop.start.attr in names
    ):  # what is left may be nothing, whatever there was
        kept[LEFT], asked[LEFT] = {(LEFT,): 1}, turns
        loop = replace(loop, start=ZERO, stop=var(LEFT))
        body = (loop,)
    work = _bound(_joined(_block(body, {**known, **kept}), pieces), {name: known[name] for name in known if name in lengths})
    leading = _leading(work)
    if not leading:
        return TRUE if sum(work.values()) < FORK else None
    least = min(leading.values())
    amount = total(product(asked.get(n) or size(n) for n in m) * ceil(min(c / least - EPSILON, ENOUGH)) for m, c in leading.items())
    little = amount.lt(max(1, int(min(FORK / least + EPSILON, ENOUGH))))
    if loop is None or turns is None or _several(turns) or leading.keys() <= _bound(_estimate(loop.stop - loop.start, known), known).keys():
        return little
    return call("bit_or", little, turns.le(loop.step))  # one iteration, however much it is of, has no other beside it


def _several(turns: Expr) -> bool:
    """Whether the number is a multiple of another that is more than one."""
    return turns.op == "mul" and any((a.is_const and a.attr > 1) or _several(a) for a in turns.args)


def _leading(work: Estimate) -> Estimate:
    """Without the terms that are small beside another: those that divide it, unless little is done for each of the other's: where tiles multiply, what is done for each score takes longer than
    its product.  What is small beside a small term is small beside the one that this is small beside, so only those that are not small are asked: of hundreds, a few."""
    found: Estimate = {}
    for m in sorted(work, key=len, reverse=True):
        c = work[m]
        if m and c > 0 and not any(len(m) < len(n) and _divides(m, n) and c <= d * USUAL ** (len(n) - len(m)) for n, d in found.items()):
            found[m] = c
    return {m: c for m, c in work.items() if m in found}


def _pieces(value: Expr, known: dict[str, Estimate]) -> tuple[Estimate, str] | None:
    """What is cut in pieces, and the name of their length, where the value is the number of these."""
    cut = next((n for n in postorder(value) if n.op == "floordiv" and n.args[1].op == "var" and n.args[1].attr in known), None)
    return None if cut is None else (_bound(_estimate(cut.args[0], known), known), cut.args[1].attr)


def _joined(work: Estimate, pieces: dict[str, tuple[Estimate, str]]) -> Estimate:
    """Numbers of pieces times their length: all of what is cut."""
    for name, (whole, length) in pieces.items():
        result: Estimate = {}
        for m, c in work.items():
            term: Estimate = {m: c}
            if name in m and length in m:
                left = list(m)
                left.remove(name)
                left.remove(length)
                term = _times({tuple(left): c}, whole)
            result = _sum(result, term)
        work = result
    return work


def _quotient(a: Estimate, b: Estimate) -> Estimate:
    """The quotient of the leading terms where one divides the other, else 1."""
    (m, x), (n, y) = (max(e.items(), key=lambda term: len(term[0])) for e in (a, b))
    if not _divides(n, m) or x <= 0 or y <= 0:
        return {(): 1}
    left = list(m)
    for name in n:
        left.remove(name)
    return {tuple(left): x / y}


def _divides(m: tuple[str, ...], n: tuple[str, ...]) -> bool:
    return all(m.count(name) <= n.count(name) for name in m)


def _block(body: p.Block, stops: dict[str, Estimate], far: frozenset[str] = frozenset(), loops: frozenset[str] = frozenset()) -> Estimate:
    """`far`: positions that come from memory."""
    result: Estimate = {(): 0}
    for s in body:
        if isinstance(s, p.For):
            stop = _bound(_estimate(s.stop, stops), stops)
            step = s.step.attr if s.step.is_const else 1
            trips = stop if s.start is ZERO else _sum(stop, _bound(_estimate(s.start, stops), stops), -1)
            if any(e.buffers or far & e.names for e in (s.start, s.stop)):
                trips = {(): RAGGED}
            if step != 1:
                trips = {m: c / step for m, c in trips.items()}
            if len(trips) == 1 and trips.get((), 1) < 0:  # 4 // 5 - 1, about
                trips = {}
            result = _sum(result, _times(trips, _block(s.body, {**stops, s.var: stop}, far, loops | {s.var})))
        elif isinstance(s, p.Define) and not s.mutable and s.dtype is INDEX and s.value is not None:
            stops = {**stops, s.name: _bound(_estimate(s.value, stops), stops)}
            if s.value.buffers or far & s.value.names:
                far = far | {s.name}
        elif isinstance(s, p.While):
            result = _sum(result, _times({(): RAGGED}, _block(s.body, stops, far, loops)))
        elif isinstance(s, p.Region):
            result = _sum(result, _block(s.body, stops, far, loops))
        elif isinstance(s, p.If):
            # the first branch is the interior, the second its border; a failed check is neither, and what sizes alone decide may be what few of them are done with
            branches = [s.orelse if all(isinstance(t, p.Fail) for t in s.body) else s.body]
            if s.orelse and s.condition.names.isdisjoint(stops):
                branches = [s.body, s.orelse]
            found = [_block(b, stops, far, loops) for b in branches]
            result = _sum(result, max(found, key=lambda e: max((len(m), c) for m, c in e.items())))
        elif isinstance(s, p.Multiply):
            result = _sum(result, _times(_bound(_estimate(s.steps, stops), stops), {(): s.rows * s.columns / SIDE}))
        else:
            nodes = [e for e in postorder(*s.expressions()) if e.args and e.dtype is not INDEX]
            result[()] += sum([_cost(e, far) for e in nodes]) + (MEMORY - 1) * _moved(s, nodes, loops)
    return result


def _moved(s: p.Stmt, nodes: Iterable[Expr], loops: frozenset[str]) -> int:
    """Vectors that a statement loads or stores at another place in every iteration of all loops around it: nothing of them is in the first cache from before."""
    addresses = [e.args[0] for e in nodes if e.op == "vload"]
    if isinstance(s, p.StoreTo) and s.value.dtype.lanes > 1:
        addresses.append(s.address)
    return sum(loops <= a.names for a in addresses) if loops else 0


def _cost(e: Expr, far: frozenset[str]) -> int:
    if e.op in ("load", "vload") and (e.args[0].buffers or far & e.args[0].names):
        return FAR
    scalar = e.dtype.lanes == 1
    if e.op == "ins" and e.attr == WEIGHT.name:
        return CALL if scalar else COSTS["exp"]
    return (CALL if scalar else COSTS[e.op]) if e.op in COSTS else 1 if scalar else DIVIDED.get(e.op, 1)


def _estimate(e: Expr, stops: dict[str, Estimate]) -> Estimate:
    """Variables of the loops in `stops`, and other names there, stay in it by name; what is not known counts as 1."""
    if e.is_const:
        return {(): _clipped(e.attr)}
    done: dict[Expr, Estimate] = {}
    for n in postorder(e):
        args = [done[a] for a in n.args]
        match n.op:
            case "const" if not n.dtype.is_float:
                done[n] = {(): _clipped(n.attr)}
            case "size" | "var" if n.op == "size" or n.attr in stops:
                done[n] = {(n.attr,): 1}
            case "add":
                done[n] = _sum(args[0], args[1])
            case "mul":
                done[n] = _times(args[0], args[1])
            case "floordiv" if n.args[1].is_const and n.args[1].attr > 0:
                divisor = n.args[1].attr
                fraction: Estimate = {m: c / divisor for m, c in args[0].items()}
                rounding = 0 if any(c > 0 for m, c in fraction.items() if m) else fraction.get((), 0)  # (x + 7) // 8 is about x / 8
                done[n] = fraction | {(): rounding}
            case "floordiv":
                done[n] = _quotient(args[0], args[1])
            case "min" if not any(x.is_const for x in n.args):
                done[n] = min(args, key=lambda e: max((len(m), c) for m, c in e.items()))
            case "min" | "mod":
                done[n] = next((a for x, a in zip(n.args[::-1], args[::-1], strict=True) if x.is_const), args[0])
                if n.op == "min" and n.args[0].is_const:
                    done[n] = args[0]
            case "max":
                done[n] = next((a for x, a in zip(n.args, args, strict=True) if not x.is_const), args[0])
            case _:
                done[n] = {(): 1}
    return done[e]


def _bound(e: Estimate, stops: dict[str, Estimate]) -> Estimate:
    """Loop variables, and other names, replaced: by where they stop in a positive term, by 0 in a negative one."""
    if not [n for m in e for n in m if n in stops]:
        return e
    result: Estimate = {(): 0}
    for m, c in e.items():
        term: Estimate = {tuple([n for n in m if n not in stops]): c}
        for name in [n for n in m if n in stops]:
            term = _times(term, stops[name]) if c > 0 else {}
        result = _sum(result, term)
    return result


def _clipped(x: float) -> float:
    return x if -MOST <= x <= MOST else min(max(x, -MOST), MOST)


def _sum(a: Estimate, b: Estimate, times: int = 1) -> Estimate:
    """a + times · b"""
    result = dict(a)
    for m, c in b.items():
        result[m] = result.get(m, 0) + c * times
    return result


def _times(a: Estimate, b: Estimate) -> Estimate:
    result: Estimate = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n)) if m and n else m or n
            result[key] = result.get(key, 0) + _clipped(c * d)
    return result
