"""THE list of passes, in order, each with the reason why it stands where it stands.

A pass takes valid IR and returns valid IR of its result level; it never mutates, never touches a file, never asks the machine (the target says).
It runs from the -O level `since` on, and where `when` does not hold it has nothing to do, so that it is not even imported: importing all of them takes as long as a small
composite takes to go through them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from time import perf_counter
from typing import Any

from ..ir.dtypes import INDEX
from ..ir.errors import CompilerBug, LuminalError
from ..ir.instructions import EXP_INSIDE, QUOTIENT
from ..ir.kernel import statements as statements_of
from ..ir.operator_kinds import DIVIDES
from ..ir.program import Define, kinds_in, statements
from ..ir.record import record
from ..ir.target import Options, Target
from ..ir.walks import postorder
from .reading import several_reductions

IR = Any  # Graph | kernel.Module | Program
LEVELS = ("graph", "kernel", "program")
EACH = False  # whether to verify after each pass that has changed something, as the tests do: it takes a sixth as long as the passes


@record
class Pass:
    name: str  # also its module in this folder and its function there
    source: str  # graph | kernel | program
    reason: str
    since: int = 0  # the first -O level that runs it
    optional: bool = False  # a search may try what comes out without it
    when: Callable[[IR, Target, Options], bool] = lambda ir, target, options: True
    makes: str = ""  # the level of what comes out, where it is another

    @property
    def result(self) -> str:
        """The level of what comes out."""
        return self.makes or self.source

    def load(self) -> Callable[[IR, Target, Options], IR]:
        """The pass itself; its module is imported when it is first asked for."""
        return getattr(import_module(f".{self.name}", __package__), self.name)


def _has(op: str) -> Callable[[IR, Target, Options], bool]:
    """A graph with a node of this kind."""
    return lambda ir, target, options: any(n.op == op for n in ir.nodes())


def _reads_at_quotients(ir: IR, target: Target, options: Options) -> bool:
    """On a processor: a GPU waits for memory while it divides."""
    loads = (
        n for k in ir.kernels for s in statements_of(k.body) for e in s.expressions() if e.kinds & DIVIDES for n in postorder(e) if n.op == "load"
    )
    return not target.gpu and any(e.kinds & DIVIDES for n in loads for e in n.args)


def _several_kernels(ir: IR, target: Target, options: Options) -> bool:
    return len(ir.kernels) > 1


def _names_positions_in_lanes(ir: IR, target: Target, options: Options) -> bool:
    return any(isinstance(s, Define) and s.dtype.lanes > 1 and s.dtype.element is INDEX for f in ir.functions for s in statements(f.body))


def _divides_on_a_processor(ir: IR, target: Target, options: Options) -> bool:
    return not target.gpu and any(kinds_in(f.body) & DIVIDES for f in ir.functions)


def _sums_of_blocks(ir: IR) -> bool:
    sums = [n for n in ir.nodes() if n.op == "reduce"]
    return len(sums) > 1 and any(all(e.is_const for e in n.attr.extents) for n in sums)


def _only_fast(ir: IR, target: Target, options: Options) -> bool:
    return options.fast


PIPELINE: tuple[Pass, ...] = (
    Pass("raise_loops", "graph", "first: whatever is tensor algebra must look like it before anything matches on it", when=_has("nest")),
    Pass("widen_scatters", "graph", "before simplify, which then merges its casts with those that are there", when=_has("scatter")),
    Pass("simplify", "graph", "before fusing, so that dead and repeated work is not counted as traffic"),
    Pass("shorten_filters", "graph", "on the simplified graph, which is what a run is judged by; only under --fast", when=_only_fast),
    Pass(
        "merge_sums",
        "graph",
        "after simplify, which composes views; before take_out_shifts, which would take the integers of a block apart",
        since=2,
        when=lambda ir, target, options: not options.strict and not target.gpu and _sums_of_blocks(ir),
    ),
    Pass(
        "take_out_scales",
        "graph",
        "after merge_sums, which makes one sum of floats of several; before cascade and fuse, which leave sums of blocks where they are",
        since=2,
        when=lambda ir, target, options: not options.strict and not target.gpu and bool(target.instructions) and _has("reduce")(ir, target, options),
    ),
    Pass(
        "take_out_shifts",
        "graph",
        "after simplify, which shows what is added to what; before fusing, which would make the sums real",
        since=2,
        when=lambda ir, target, options: bool(target.instructions) and any(n.op == "reduce" and n.dtype.is_integer for n in ir.nodes()),
    ),
    Pass(
        "pick",
        "graph",
        "after simplify, which composes views; before cascade and fuse, which would make rows of zeros with a one",
        since=2,
        when=_has("equal"),
    ),
    Pass(
        "running",
        "graph",
        "after simplify, which makes conditions the domains of views; before fuse, which would make each position a sum of its own",
        since=2,
        when=_has("reduce"),
    ),
    Pass(
        "reassociate",
        "graph",
        "after pick and running, which know sums of products that are less; before cascade, which would take the sums inside for scores",
        since=2,
        when=lambda ir, target, options: not options.strict and _has("reduce")(ir, target, options),
    ),
    Pass(
        "row_axes",
        "graph",
        "after simplify, which composes views; before cascade, which then sees loops over the rows of its scores",
        since=2,
        when=_has("nest"),
    ),
    Pass(
        "gather_first",
        "graph",
        "after pick, which makes gathers; before cascade, for which nobody else may want the scores",
        since=2,
        when=lambda ir, target, options: any(n.op == "gather" for n in ir.nodes()) and several_reductions(ir.nodes()),
    ),
    Pass(
        "cascade",
        "graph",
        "before fusing: passes over an axis that become one need no tensor between them",
        since=2,
        optional=True,
        when=lambda ir, target, options: several_reductions(ir.nodes()),
    ),
    Pass(
        "ask_after", "graph", "after cascade, which asks tile by tile; before fuse, which makes real what is multiplied", since=2, when=_has("reduce")
    ),
    Pass(
        "number_truths",
        "graph",
        "after cascade, for which what is masked is told by truths; before fuse, which places what they are made of",
        since=2,
        when=_has("reduce"),
    ),
    Pass(
        "mirror_products",
        "graph",
        "after cascade and ask_after, which know products of which less is wanted; before fuse, which makes the half real that is multiplied",
        since=2,
        when=_has("reduce"),
    ),
    Pass("fuse", "graph", "last on the graph: it only marks what is made real, with every rewrite already done"),
    Pass("make_nests", "graph", "one kernel for each node made real; loops are in logical order, nothing is scheduled", makes="kernel"),
    Pass("split_complex", "kernel", "once for what tensors and what loops have made: nothing after it knows complex numbers"),
    Pass("flatten_temps", "kernel", "before whatever looks at positions: what is read as one axis is one", since=2),
    Pass("carry", "kernel", "before rows are joined, which asks what loops read of what they store", since=2),
    Pass("checks_first", "kernel", "before kernels join and are scheduled: loops that nothing leaves are tiles and vectors", since=2),
    Pass(
        "complex_products",
        "kernel",
        "before kernels join: what makes the result of it is one that others may join; before scheduling, which tiles real contractions",
        since=2,
        when=lambda ir, target, options: bool(ir.temps) or any(p.pairs for p in ir.ports),
    ),
    Pass(
        "join_rows", "kernel", "before scheduling, which is of one kernel at a time: what was stored for the next kernel stays in the cache", since=2
    ),
    Pass(
        "join_columns",
        "kernel",
        "after join_rows, which finds what is done row by row; before scheduling, for the same reason",
        since=2,
        when=_several_kernels,
    ),
    Pass("split_columns", "kernel", "after join_columns, which goes through rows in the same pieces for more than their sums", since=2),
    Pass(
        "share_reciprocals",
        "kernel",
        "before legalize, which decomposes what divisions are left where the target has none; only under --fast",
        when=_only_fast,
    ),
    Pass("legalize", "kernel", "before scheduling, so that a register budget counts the operations that are really emitted"),
    Pass(
        "join",
        "kernel",
        "before scheduling, which looks at one kernel at a time; after legalize, which tells what is computed with",
        since=2,
        when=_several_kernels,
    ),
    Pass("join_blocks", "kernel", "after all that joins whole kernels; right before scheduling, which tiles the contraction inside a block", since=2),
    Pass(
        "tabulate_positions",
        "kernel",
        "after all that joins kernels, for a table is one more; right before scheduling, which sees positions that are read and makes vectors of what is left",
        since=2,
        when=_reads_at_quotients,
    ),
    Pass("schedule", "kernel", "at -O0 and -O1 only what the target demands (GPU axes), from -O2 the automatic schedule"),
    Pass("lower", "kernel", "flat addresses and vectors; from here on nothing is decided", makes="program"),
    Pass("simplify_index", "program", "addresses are sums of products now; bounds of the loops are known"),
    Pass(
        "narrow_lanes",
        "program",
        "on vectors, which lower makes, and after simplify_index, which knows more of what is a scalar; before hoist, which shares what is left and drops the names that nothing reads",
        since=2,
        when=_names_positions_in_lanes,
    ),
    Pass(
        "share_divisors",
        "program",
        "on vectors, which lower makes; before hoist, which computes the reciprocals ahead of the loops",
        since=2,
        when=lambda ir, target, options: QUOTIENT.name in target.instructions,
    ),
    Pass("hoist", "program", "after simplify_index: it moves what that has made equal out of the loops"),
    Pass("outline", "program", "after all that asks what is known: a function by itself knows less of what stands around it", since=2),
    Pass(
        "uncollapse",
        "program",
        "after outline, whose functions hold what a thread runs from one end to the other; before unroll, which asks how often loops run",
        since=2,
        when=_divides_on_a_processor,
    ),
    Pass("unroll", "program", "it counts what an iteration is in the end", since=2, when=lambda ir, target, options: not target.gpu),
    Pass(
        "spare_bounds",
        "program",
        "last: whatever counts operations knows the functions by their names",
        since=2,
        when=lambda ir, target, options: EXP_INSIDE.name in target.instructions,
    ),
)


def _unchanged(ir: IR, target: Target, options: Options) -> IR:
    return ir


Observer = Callable[[str, str, IR, float], None]  # pass, level of its result, the result, seconds


def run_pipeline(
    ir: IR,
    start: str,
    target: Target,
    options: Options,
    observer: Observer | None = None,
    *,
    stop_after: str | None = None,
    stop_level: str | None = None,
    after: str | None = None,
) -> IR:
    """Run the passes that follow a level, and verify what comes out of the last one of each level.

    `start` is the level of `ir` (graph, kernel, program): every pass from the first one that takes it is run, so an intermediate file may be cut anywhere
    inside the graph or kernel level; passes leave alone what they have done before.  A program is taken as it is.  `stop_after` names a pass, `stop_level` a level (its last pass); both None: to the end.
    `after` names a pass that the IR has come through: only those behind it are run.
    Raises what the passes raise (Unsupported), and CompilerBug where a pass breaks a verify rule: passes are deterministic, so which one that was is found by running them again.
    """
    # a program is finished text, as assembly is: only what a pass of another level made is worked on further
    passes = [p for p in PIPELINE if LEVELS.index(p.source) >= LEVELS.index(start)] if start != "program" else []
    if after is not None:
        behind = PIPELINE[[p.name for p in PIPELINE].index(after) + 1 :]
        passes = [p for p in passes if p in behind]
    if stop_level is not None:
        passes = [p for p in passes if LEVELS.index(p.result) <= LEVELS.index(stop_level)]
    if stop_after in [p.name for p in passes]:
        passes = passes[: [p.name for p in passes].index(stop_after) + 1]
    passes = [p for p in passes if options.level >= p.since and p.name not in options.left_out]
    try:
        return _run(ir, passes, target, options, observer, EACH)
    except Exception as wrong:
        if not EACH and (isinstance(wrong, CompilerBug) or not isinstance(wrong, LuminalError)):
            _run(ir, passes, target, options, None, True)  # says which pass broke a rule, if it was that
        raise


def _run(ir: IR, passes: Sequence[Pass], target: Target, options: Options, observer: Observer | None, each: bool) -> IR:
    from ..ir.verify import verify

    verified: IR = None
    for number, p in enumerate(passes, 1):
        run = p.load() if p.when(ir, target, options) else _unchanged
        began = perf_counter()  # after loading: what a pass costs is not what Python's imports cost
        ir = run(ir, target, options)
        seconds = perf_counter() - began
        if (each or number == len(passes) or passes[number].result != p.result) and ir is not verified and ir != verified:
            try:
                verify(ir)
            except CompilerBug as bug:
                raise CompilerBug(p.name, str(bug)) from bug
            verified = ir
        if observer is not None:
            observer(p.name, p.result, ir, seconds)
    return ir
