"""One row: a composite at one binding of its sizes, checked, timed beside its peers, and compared with what the machine can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy

from ...ir.graph import Graph, Port
from ...ir.layout import as_array
from ...ir.program import ERRORS
from ...ir.record import record, replace
from ..account import account
from ..child import Child
from ..operations import iterations, work_of
from ..trial import Result, Subject, in_memory, run
from .blocks import STOLEN, Block, Contender, Method, block, compare, middle, minima, ratio, ratios, spread, typical
from .ceiling import Ceilings, Limit
from .dialect import REFUSALS
from .loop import looped
from .pace import SLOW, Pace
from .peers import Peer, Work, candidates

if TYPE_CHECKING:
    from ...ir.kernel import Module
    from ...ir.target import Target
    from ...runtimes import Runtime

OURS = "luminal"
CEILING = "ceiling"  # among the contenders
QUICK = Method(blocks=1, runs=5, seconds=0.02, pause=0.01)
SMALL = 100e-6  # seconds below which the cost of a call from Python counts
PATIENCE = 1.0  # seconds of one call from which on a peer that is far behind is left alone
STEPS = 500_000  # statements of loops that stay loops which the reference goes through one by one, with their bounds: seconds
CHECKED = 5e9  # operations up to which the float64 reference checks at the very sizes that are timed: seconds

# Greatest difference between a peer's result and ours, over the norm of ours: both are right to rounding, which the dtype decides.
_AGREE = {"f64": 1e-9, "f32": 2e-4, "f16": 2e-2, "bf16": 6e-2}


@record
class Row:
    """Seconds are those of one execution: minima of the blocks, by implementation, ours first."""

    composite: str
    sizes: dict[str, int]
    dtype: str
    checked: Result
    checked_at: dict[str, int]
    minima: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)  # seconds of a call by itself, already taken off
    forms: dict[str, str] = field(default_factory=dict)  # what a peer calls
    notes: tuple[str, ...] = ()
    flops: int = 0
    bytes: int = 0
    ceiling: str = ""  # copy | read | fma: what bounds the row on this machine
    best_possible: list[float] = field(default_factory=list)  # seconds at that ceiling: the minima of its own blocks

    @property
    def ok(self) -> bool:
        return self.checked.ok

    def seconds(self, name: str = OURS) -> float:
        return typical(self.minima[name])

    @property
    def best_peer(self) -> str | None:
        peers = [name for name in self.minima if name != OURS]
        return min(peers, key=self.seconds) if peers else None

    @property
    def ratio(self) -> float | None:
        """The best peer's time over ours: above 1 ours is faster."""
        return None if self.best_peer is None else ratio(self.minima[OURS], self.minima[self.best_peer])[0]

    @property
    def noise(self) -> float | None:
        """Of the ratio: half the range of its middle half, round by round; None where one block says nothing."""
        if self.best_peer is None or len(self.minima[OURS]) < 2:
            return None
        return middle(ratios(self.minima[OURS], self.minima[self.best_peer]))

    @property
    def tie(self) -> bool:
        return self.ratio is not None and self.noise is not None and abs(self.ratio - 1) <= self.noise

    @property
    def of_ceiling(self) -> float | None:
        return typical(self.best_possible) / self.seconds() if self.best_possible and self.minima else None

    def as_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "composite": self.composite, "sizes": self.sizes, "dtype": self.dtype, "ok": self.ok, "check": {**self.checked.as_json(), "sizes": self.checked_at},
        }  # fmt: skip
        if self.minima:
            seconds = self.seconds()
            row["time_s"] = {name: self.seconds(name) for name in self.minima}
            row["spread"] = {name: round(spread(found), 4) for name, found in self.minima.items()}
            row |= {"best_peer": self.best_peer, "ratio": self.ratio, "noise": self.noise, "tie": self.tie}
            row |= {
                "flops": self.flops,
                "bytes": self.bytes,
                "gflops": round(self.flops / seconds / 1e9, 3),
                "gbps": round(self.bytes / seconds / 1e9, 3),
            }
            row |= {"ceiling": self.ceiling or None, "of_ceiling": self.of_ceiling, "call_cost_s": self.costs, "forms": self.forms}
        return row | {"notes": list(self.notes)}


@dataclass(frozen=True)
class Bench:
    """What all rows of one composite share."""

    subject: Subject
    name: str  # of the composite, whatever optional ports are absent
    nests: Module  # its kernels before they are scheduled
    library: Any  # runtimes.Library, in this process
    empty: dict[str, int] | None  # the smallest sizes that the composite takes: a call of next to nothing
    parameters: Mapping[str, Any]
    ceilings: Ceilings
    tools: tuple[Runtime, Target]  # what builds loops in C
    threads: int
    method: Method
    families: Sequence[str]
    seed: int = 0
    timeout: float = 120.0
    forms: Mapping[str, Sequence[str]] = field(default_factory=dict)  # family -> expressions that come before those of `forms`


def measure(bench: Bench, sizes: dict[str, int], scalars: Mapping[str, Any], child: Child) -> Row:
    """Check first; what is wrong is not timed."""
    graph, raised = bench.subject.graph, bench.subject.raised
    flops, moved = work_of(raised, sizes)
    moved = min(moved, account(bench.nests, bench.subject.program, sizes).bytes_value or moved)  # a gather does not touch all of its table
    small = within(graph, raised, sizes, CHECKED)
    checked = run(bench.subject, small, child=child, seed=bench.seed, given=scalars, timeout=bench.timeout, timed_runs=0)
    dtype = next((p.dtype.name for p in graph.ports if p.role in ("out", "inout")), "")
    row = Row(bench.name, sizes, dtype, checked, small, flops=flops, bytes=moved)
    if not checked.ok:
        return row
    work = work_at(bench, sizes, scalars)
    ours = own(bench, work)
    code = ours.call()
    if code:  # what the smaller check did not meet
        return replace(row, checked=replace(checked, status="code", detail=f"returned {code} ({ERRORS.get(code, 'unknown')}) at {show(sizes)}"))
    expected = ours.results(code)
    quick = block(ours.contender, QUICK)
    notes: list[str] = [] if small == sizes else [f"checked at {show(small)}"]
    peers = [ours]
    for family in bench.families:
        found = candidates(family, work)
        notes += found.notes
        right: dict[str, list[Peer]] = {}  # by name: the expressions of one library
        for peer in found.peers:
            wrong, seconds = difference(graph, peer, expected)
            if not wrong and seconds > max(PATIENCE, 20 * quick):
                wrong = f"takes {seconds:.1f} s"
            if not wrong:
                right.setdefault(peer.name, []).append(peer)
            elif peer.name not in right:
                notes.append(f"{peer.name}: {wrong}, not timed")
        for forms in right.values():  # the fastest stands for its library
            peers.append(min(forms, key=lambda p: block(p.contender, QUICK)) if len(forms) > 1 else forms[0])
    for peer in peers:
        peer.reset()
    contenders = {peer.name: in_c(bench, peer) if quick < SMALL else peer.contender for peer in peers}
    limit, needed = bounding(row, raised, bench)
    found = compare(
        {OURS: contenders[OURS], CEILING: limit.contender, **contenders}, bench.method, bench.ceilings.pace
    )  # next to ours: in a second the machine may be another
    notes += disturbed(found, bench.ceilings.pace)
    times = minima(found)
    row = replace(row, ceiling=limit.kind, best_possible=[m * needed / limit.amount for m in times.pop(CEILING)])
    costs = calls(bench, [name for name, c in contenders.items() if c.executions == 1], scalars) if quick < SMALL else {}
    net = {name: [max(m - costs.get(name, 0.0), 0.0) or m for m in found] for name, found in times.items()}
    return replace(row, minima=net, costs=costs, forms={p.name: p.form for p in peers[1:]}, notes=tuple(notes))


def disturbed(blocks: Mapping[str, list[Block]], pace: Pace) -> list[str]:
    """What is to be said of the cores in the blocks that count."""
    notes: list[str] = []
    stolen = {name: max(b.stolen for b in found) for name, found in blocks.items()}
    if max(stolen.values()) > STOLEN:
        taken = ", ".join(f"{share:.0%} of a core from {name}" for name, share in stolen.items() if share > STOLEN)
        notes.append(f"disturbed: the host, or another thread on the core, took {taken}")
    lost = [pace.lost(b.pace) for found in blocks.values() for b in found]
    if max(lost) > SLOW:
        kept = "all alike" if max(lost) - min(lost) <= SLOW else f"of others up to {1 - min(lost):.2f}"
        notes.append(f"slow: the cores had {1 - max(lost):.2f} of the pace that they had at best, {kept}")
    return notes


def in_c(bench: Bench, peer: Peer) -> Contender:
    """A C function is called from a loop in C; what only Python can call is called from there."""
    plain = peer.contender
    if not isinstance(peer.call, partial):
        return plain
    call, count = looped(*bench.tools, peer.call, block(plain, QUICK), bench.timeout)
    return Contender(call, count, plain.reset)


def calls(bench: Bench, names: list[str], scalars: Mapping[str, Any]) -> dict[str, float]:
    """What a call of these costs by itself: the seconds that it takes at the smallest sizes that the composite has."""
    if bench.empty is None:
        return {}
    work = work_at(bench, bench.empty, scalars)
    found = {OURS: own(bench, work)} | {p.name: p for family in bench.families for p in candidates(family, work).peers}
    costs: dict[str, float] = {}
    for name in names:
        if name in found:
            try:
                costs[name] = min(block(found[name].contender, QUICK) for _ in range(3))
            except REFUSALS:  # a library that does not take sizes of 1
                continue
    return costs


def within(graph: Graph, raised: Graph, sizes: Mapping[str, int], limit: float) -> dict[str, int]:
    """The sizes, or the same with the largest halved, again and again, until the work is within the limit, and what the reference does step by step within its own."""
    found = dict(sizes)
    low = {s.name: (s.min, s.multiple) for s in graph.sizes}
    while work_of(raised, found)[0] > limit or iterations(raised, found) > STEPS:
        for name in sorted(found, key=lambda n: -found[n]):
            least, multiple = low[name]
            smaller = {**found, name: max(found[name] // 2 // multiple * multiple, least, multiple)}
            if smaller[name] < found[name] and fits(graph, smaller):
                found = smaller
                break
        else:
            break
    return found


def smallest(graph: Graph) -> dict[str, int] | None:
    """The sizes at which next to nothing is computed, but something; None where the preconditions do not let us guess."""
    found = {s.name: max(1, s.min, s.multiple) for s in graph.sizes}
    return found if fits(graph, found) else None


def fits(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether the sizes keep the preconditions."""
    from ...ir.evaluate import holds

    return all(holds(condition, sizes) for condition in graph.requires)


def work_at(bench: Bench, sizes: Mapping[str, int], scalars: Mapping[str, Any]) -> Work:
    from ..draw import draw

    graph = bench.subject.graph
    inputs = {p.name: scalars.get(p.name, None) if p.name in scalars else draw(p, sizes, bench.seed) for p in graph.ports if p.role != "out"}
    return Work(bench.name, bench.subject.raised, sizes, inputs, bench.parameters, bench.threads, bench.forms)


def own(bench: Bench, work: Work) -> Peer:
    """Our kernel as the others are: arrays of its own, the C function with its arguments fixed."""
    flat = {p.name: in_memory(p, work.sizes, work.inputs.get(p.name)) for p in bench.subject.program.ports if p.role != "scalar"}
    arrays: dict[str, Any] = {p.name: as_array(p, work.sizes, flat[p.name]) for p in bench.subject.program.ports if p.role != "scalar"}
    scalars = {p.name: work.inputs[p.name] for p in bench.subject.program.ports if p.role == "scalar"}
    call = bench.library.bind({**arrays, **scalars}, dict(work.sizes))
    outputs = [p.name for p in work.graph.ports if p.role in ("out", "inout")]
    originals = {p.name: numpy.array(work.inputs[p.name]) for p in work.graph.ports if p.role == "inout"}

    def results(code: int) -> dict[str, Any]:
        return {name: numpy.array(arrays[name]) for name in outputs}

    return Peer(OURS, "", call, arrays, results, originals)


def difference(graph: Graph, peer: Peer, expected: Mapping[str, Any]) -> tuple[str, float]:
    """How a peer's result is another than ours (empty where it is the same to rounding), and the seconds that its call took."""
    began = perf_counter()
    try:
        returned = peer.call()
        seconds = perf_counter() - began
        found = peer.results(returned)
    except REFUSALS as why:
        said = str(why).strip().splitlines()
        return f"fails ({said[0][:120] if said else type(why).__name__})", 0.0
    for port in graph.ports:
        if port.role in ("out", "inout") and port.name in found and not agrees(port, numpy.asarray(found[port.name]), expected[port.name]):
            return f"gives another {port.name}", seconds
    return "", seconds


def agrees(port: Port, theirs: Any, ours: Any) -> bool:
    if theirs.shape != ours.shape:
        return False
    if not port.dtype.is_inexact:
        return numpy.array_equal(theirs.astype(ours.dtype), ours)
    a, b = (x.astype(numpy.complex128 if port.dtype.is_complex else numpy.float64) for x in (theirs, ours))
    finite = numpy.isfinite(b)
    if not numpy.array_equal(finite, numpy.isfinite(a)) or not numpy.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    gap, norm = numpy.linalg.norm((a - b)[finite]), numpy.linalg.norm(b[finite])
    return bool(gap <= _AGREE.get(port.dtype.name, 2e-4) * norm) if norm else gap == 0


def bounding(row: Row, raised: Graph, bench: Bench) -> tuple[Limit, float]:
    """The ceiling that bounds the row, and how much of it the row needs: memory (copying, or reading where little is written) or arithmetic, by a first look at both."""
    written = sum(
        numpy.prod([max(0, n) for n in extents(p, row.sizes)], dtype=numpy.int64) * p.dtype.bytes for p in raised.ports if p.role in ("out", "inout")
    )
    memory = bench.ceilings.read if written * 16 < row.bytes else bench.ceilings.copy
    limits = [(memory(row.bytes), float(row.bytes))]
    if row.flops and row.dtype in ("f64", "f32", "f16", "bf16"):  # integers have instructions of their own
        limits.append((bench.ceilings.flops(row.dtype), float(row.flops)))
    if len(limits) == 1:
        return limits[0]
    return max(limits, key=lambda found: block(found[0].contender, QUICK) * found[1] / found[0].amount)


def extents(port: Port, sizes: Mapping[str, int]) -> list[int]:
    from ...ir.evaluate import evaluate

    return [evaluate(e, sizes) for e in port.shape]


def show(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{k}={v}" for k, v in sizes.items())
