"""A schedule in the making: the kernel, the steps taken so far and the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ...ir.expr import ONE, Expr, both, var
from ...ir.kernel import Alloc, Kernel, Let, Loop
from ...ir.places import homes_in, path_of
from ...ir.record import changing, replace
from ...ir.target import Options, Target
from ...ir.walks import substitute
from .affine import constant_extent, extent, inside, upper
from .roles import shape
from .script import taken
from .tree import Facts, StepError, added, find, storing


class Attempt:
    """Several steps of which all are taken or none: where one is refused, the kernel is as it was, and a note says why."""

    def __init__(self, plan: Plan, otherwise: str) -> None:
        self.plan, self.saved, self.otherwise, self.refused = plan, plan.kernel, otherwise, False

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> bool:
        if not isinstance(error, StepError):
            return False
        self.plan.kernel, self.refused = self.saved, True
        if self.otherwise:
            self.plan.note(f"{self.otherwise}: {error}")
        return True


@changing
class Plan:
    kernel: Kernel
    facts: Facts
    target: Target
    options: Options
    notes: list[str] = field(default_factory=list)
    _most: dict[tuple[Expr, ...], int | None] = field(default_factory=dict)  # of `at_most`
    elsewhere: frozenset[str] | None = None  # what other nests read that stand before or after this one in its kernel; None where there are none

    @property
    def alone(self) -> bool:
        """Whether a team of threads may be started around all of it."""
        return self.elsewhere is None

    def do(self, *words: str | int, **options: str | int) -> None:
        """Take one step, written as in a script."""
        parts = [str(w) for w in words]
        for k, v in options.items():
            if v != "":
                parts.append(f"{k}={v}")
        self.kernel = taken(self.kernel, self.facts, " ".join(parts))

    def tried(self, *words: str | int, **options: str | int) -> str:
        """Take one step if it applies; else nothing happens and the reason is returned."""
        try:
            self.do(*words, **options)
        except StepError as e:
            return str(e)
        return ""

    def attempt(self, otherwise: str = "") -> Attempt:
        """Around steps of which all are taken or none; `otherwise` is what a note says of the kernel without them."""
        return Attempt(self, otherwise)

    def another(self, assumed: Expr | None = None) -> Plan:
        """A plan for the same kernel, of which nobody sees the steps unless its kernel is taken; for sizes of which this is `assumed`."""
        return Plan(
            self.kernel,
            self.facts if assumed is None else replace(self.facts, assumed=both(self.facts.assumed, assumed)),
            self.target,
            self.options,
            elsewhere=self.elsewhere,
        )

    def take(self, part: Plan) -> None:
        """The kernel of another plan, and its notes."""
        self.kernel = part.kernel
        self.note(*part.notes)

    def ordered(self, *inner: str) -> tuple[str, ...]:
        """These of the loops around the kernel's body inside the others, in this order: the others."""
        axes = shape(self.kernel).axes
        outer = tuple(a for a in axes if a not in inner)
        if (*outer, *inner) != axes:
            self.do("reorder", *outer, *inner)
        return outer

    def collapsed(self, axes: Sequence[str]) -> str:
        """The axes, nested in this order, made one: its name ("" where there are none)."""
        name = axes[0] if axes else ""
        for axis in axes[1:]:
            earlier = self.kernel
            self.do("collapse", name, axis)
            name = self.added(earlier)[0]
        return name

    def shared(self, axes: Sequence[str]) -> None:
        """The axes, nested in this order, made one loop in which each keeps its name."""
        name = axes[-1]
        for axis in reversed(axes[:-1]):
            earlier = self.kernel
            self.do("collapse", axis, name, named=1)
            name = self.added(earlier)[0]

    def note(self, *reasons: str) -> None:
        self.notes += reasons

    def perfect(self) -> None:
        """The loops around the kernel's body hold one another and nothing else: tiles are made of several.  So do those of a sum over blocks, each of which has a scale."""
        while isinstance(last := (body := shape(self.kernel).body)[-1], Loop) and len(body) > 1 and last.kind == "parallel" and last.step is ONE:
            if self.tried("sink", last.axis):
                return
        for s in body:
            while isinstance(s, Loop) and s.kind == "reduce" and isinstance(inner := s.body[-1], Loop) and inner.kind == "reduce":
                if isinstance(s.body[0], Let) and all(isinstance(t, Let) for t in s.body[:-1]) and self.tried("sink", inner.axis, inline=1):
                    return
                s = inner

    # ---- asking the kernel

    def loop(self, axis: str) -> Loop:
        return find(self.kernel, axis)

    def has(self, axis: str) -> bool:
        path = path_of(self.kernel, axis)
        return bool(path) and isinstance(path[-1], Loop)

    def extent(self, axis: str) -> int | None:
        """The extent of an axis where it is constant."""
        return constant_extent(self.loop(axis))

    def at_most(self, axis: str) -> int | None:
        """The most iterations that a loop has, also where it stops at a name of the kernel's, or where the loops around it do."""
        loop = self.loop(axis)
        length = extent(loop)
        if length.is_const or loop.step is not ONE:
            return length.attr if loop.step is ONE else None
        path = [s for s in path_of(self.kernel, axis)[:-1] if isinstance(s, Loop) and s.axis in length.names]
        lets = [s for s in self.kernel.body if isinstance(s, Let)]
        key = (
            length,
            *[s.value for s in lets],
            *[e for s in path for e in (var(s.axis), s.start, s.stop, s.step)],
        )  # of loops, whose hash is that of all in them, the heads
        if key not in self._most:
            names: dict[Expr, Expr] = {}
            for s in lets:
                names[var(s.name)] = substitute(s.value, names)
            self._most[key] = upper(substitute(length, names), inside(path, self.facts.known))
        return self._most[key]

    def around_store(self, buffer: str) -> list[tuple[Loop, ...]]:
        """For each statement that stores into `buffer`: the loops around it, outermost first."""
        return [loops for _, loops in storing(self.kernel.body, buffer)]

    def added(self, before: Kernel) -> list[str]:
        """The axes that `before` did not have, outer before inner, in order."""
        return [s.axis for s in added(self.kernel, before) if isinstance(s, Loop)]

    def newest(self, before: Kernel) -> str:
        """The one local buffer that `before` did not have."""
        return next(s.buffer.name for s in added(self.kernel, before) if isinstance(s, Alloc))

    def copying(self, packed: str, before: Kernel) -> list[str]:
        """The axes of the first nest that copies into `packed`: those of its loops that the kernel did not have before (a second copy along an axis has other names)."""
        old = homes_in(before)
        return [x.axis for x in self.around_store(packed)[0] if x.axis not in old]

    def summing(self, buffer: str, depth: str, count: int) -> tuple[str, ...]:
        """The innermost kept axes, so many, of the nest that accumulates into `buffer` over `depth`."""
        for loops in self.around_store(buffer):
            if depth in [x.axis for x in loops]:
                return tuple(x.axis for x in loops if x.axis != depth and x.kind != "reduce")[-count:]
        raise StepError("the reduction has disappeared")
