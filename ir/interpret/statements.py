"""Loops, teams and nested functions in translated Python: what the kernel and the program level have in common."""

from __future__ import annotations

from typing import Any

from .translate import Translator

PARALLEL = frozenset({"parallel", "workshare", "queue", "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z"})
BLOCK_LIMIT = 12  # loops in one Python function; CPython allows 20 nested blocks


class Statements(Translator):
    """`block` and `assigned` are the level's own."""

    def __init__(self, exact: bool, check: bool) -> None:
        super().__init__(exact)
        self.check = check
        self.buffers: dict[str, str] = {}  # buffers of the IR -> Python names
        self.in_team = False  # inside a generator that stops at barriers
        self.share = "0, 1"  # this thread of the team, and how many there are
        self.loop_depth = 0

    def block(self, body: Any) -> None:
        raise NotImplementedError

    def assigned(self, body: Any) -> list[str]:
        """The Python names that the block assigns and that are defined outside it."""
        raise NotImplementedError

    def inside(self, body: Any) -> None:
        """The block one level deeper; what it defines ends with it."""
        self.depth += 1
        kept = self.scope()
        self.block(body)
        self.restore(kept)
        self.depth -= 1

    def scope(self) -> Any:
        return dict(self.names), dict(self.buffers)

    def restore(self, kept: Any) -> None:
        self.names, self.buffers = kept

    def if_(self, s: Any) -> None:
        self.line(f"if {self.expression(s.condition)}:")
        self.inside(s.body)
        if s.orelse:
            self.line("else:")
            self.inside(s.orelse)

    def while_(self, s: Any, limit: Any) -> None:
        """At most `limit` trips, where one is given."""
        trips = self.fresh()
        if limit is not None:
            self.line(f"{trips} = {self.expression(limit)}")
        self.line("while True:")
        self.depth += 1
        if limit is not None:
            self.line(f"if {trips} <= 0: break")
            self.line(f"{trips} -= 1")
        self.line(f"if not {self.expression(s.condition)}: break")
        self.depth -= 1
        self.nested_body(s.body)

    def repeat(self, kind: str, variable: str, iterations: str, body: Any) -> None:
        """A loop of this kind over a Python range."""
        if kind in ("workshare", "queue"):
            iterations = f"S.share({iterations}, {self.share})"
        elif kind in PARALLEL and self.check:
            iterations = f"S.order({iterations})"
        watched = kind in PARALLEL and self.check
        before = self.fresh()
        if watched:
            self.line(f"{before} = S.context")
            self.line(f"{before}n = S.run_number()")
        self.line(f"for {variable} in {iterations}:")
        if watched:
            self.depth += 1
            self.line(f"S.context = (*{before}, ({before}n, {variable}))")
            self.depth -= 1
        self.nested_body(body)
        if watched:
            self.line(f"S.context = {before}")

    def nested_body(self, body: Any) -> None:
        self.loop_depth += 1
        if self.loop_depth % BLOCK_LIMIT:
            self.inside(body)
        else:
            self.depth += 1
            name = self.as_function(body, "")
            self.line(f"yield from {name}()" if self.in_team else f"{name}()")
            self.depth -= 1
        self.loop_depth -= 1

    def as_function(self, body: Any, parameter: str) -> str:
        """The block as a nested Python function, a generator inside a team."""
        name = self.fresh("f")
        self.line(f"def {name}({parameter}):")
        outside = [n for n in self.assigned(body) if n != parameter]
        if outside:
            self.line(f"    nonlocal {', '.join(outside)}")
        self.inside(body)
        if self.in_team:
            self.line("    yield from ()")
        return name

    def as_team(self, body: Any, variable: str, iterations: str) -> None:
        """The block once for every member; members run from barrier to barrier."""
        was, self.in_team = self.in_team, True
        name = self.as_function(body, variable)
        self.in_team = was
        team = f"S.team([{name}({variable}) for {variable} in {iterations}])"
        self.line(f"yield from {team}" if was else f"for later in {team}: S.arrive(later)")

    def region(self, body: Any, threads: str) -> None:
        outer = self.share
        thread = self.fresh("v")
        self.share = f"{thread}, {threads}"
        self.as_team(body, thread, f"range({threads})")
        self.share = outer

    def barrier(self, later: int) -> None:
        self.line(f"yield {later}" if self.in_team else "pass")
