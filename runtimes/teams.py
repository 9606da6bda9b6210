"""Who runs a statement, and what can fail there: the questions that rendering asks of a block before it writes a line of it."""

from __future__ import annotations

from collections.abc import Iterator, Set

from ..ir.program import Array, Assign, Block, Call, Define, Fail, For, Program, Region, Scratch, Stmt, named
from ..ir.walks import postorder


def every_statement(block: Block) -> Iterator[Stmt]:
    """Outer before inner, in order, without recursion."""
    return (s for s, _ in with_team(block))


def with_team(block: Block) -> Iterator[tuple[Stmt, str]]:
    """Every statement with what is around it: "", a region, or a loop whose iterations are divided among threads."""
    stack = [(s, "") for s in reversed(block)]
    while stack:
        s, team = stack.pop()
        yield s, team
        stack.extend((x, team_inside(s, team)) for inside in reversed(s.blocks()) for x in reversed(inside))


def team_inside(stmt: Stmt, around: str) -> str:
    """What is around the statements inside `stmt`: "", region or loop."""
    if isinstance(stmt, For) and (stmt.pragma == "parallel" or (stmt.pragma in ("workshare", "queue") and around)):
        return "loop"
    return around or ("region" if isinstance(stmt, Region) else "")


def failing(program: Program) -> frozenset[str]:
    """Functions that return a code: those that say so, that allocate, or that call one that does."""
    found = {f.name for f in program.functions if f.fails}
    while True:
        more = {f.name for f in program.functions if any(_can_fail(s, found) for s in every_statement(f.body))}
        if more <= found:
            return frozenset(found)
        found |= more


def fails_in_team(block: Block, failing_functions: frozenset[str]) -> bool:
    """Whether something in a region or parallel loop of the block can fail, so that its function needs the sticky `status`."""
    return any(team and _can_fail(s, failing_functions) for s, team in with_team(block))


def copied_in(loop: For, pointers: Set[str]) -> list[tuple[str, str]]:
    """What iterations only read of what is around their loop, as ("buffer" | "size" | "var", name): numbers, and those of the pointers that they use.  Nothing where an iteration is a call, which is given it all.

    A thread that has copies keeps them in registers; what a team shares is loaded again after every store (exp of 512 × 512 elements: 1.3 times as fast).
    """
    inner = list(every_statement(loop.body))
    if any(isinstance(s, (Call, Region)) for s in inner):
        return []
    own = {loop.var, *(s.var if isinstance(s, For) else s.name for s in inner if isinstance(s, (For, Define, Array, Assign, Scratch)))}
    nodes = list(postorder(*(e for s in inner for e in s.expressions())))
    buffers = {b for n in nodes for b in (*n.buffers, *((n.attr,) if n.op == "to_line" else ()))}.union(*map(named, inner))
    numbers = {(n.op, n.attr) for n in nodes if n.op in ("size", "var") and n.attr not in own}
    return [*(("buffer", b) for b in sorted(buffers & pointers - own)), *sorted(numbers)]


def ends_by_leaving(block: Block) -> bool:
    return bool(block) and isinstance(block[-1], Fail)


def _can_fail(s: Stmt, failing_functions: set[str] | frozenset[str]) -> bool:
    return isinstance(s, (Fail, Scratch)) or (isinstance(s, Call) and s.function in failing_functions)
