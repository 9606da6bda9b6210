"""merge: many programs → one, so that a test builds fifty kernels with one call of a compiler.

    entry A:               size which  size u0.M  size u1.N  size in.f32.0.n …
      call a_0(X, M)       in in.f32.0  out out.f32.0
    entry B:         →     entry:
      call b_0(P, N)         if which == 0: call u0.a_0(in.f32.0, u0.M)
                             if which == 1: call u1.b_0(in.f32.0, u1.N)

Ports are shared by programs that have one of the same dtype and role: flat arrays, whose shapes only the programs know.  Sizes are not shared: those of the programs
that are not called are 0, so that they ask for no memory.  Nothing but program statements is made, so whatever renders, builds and runs a program takes the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .dtypes import DTYPES, INDEX
from .expr import Expr, call, const, make, size, total, var
from .graph import Port, Size
from .program import Block, Call, Function, If, Program, map_block, map_expressions
from .record import record, replace
from .walks import rewrite, substitute, substitution

WHICH = "which"


@record
class Names:
    """How the names of the k-th program are called in the whole: `ports[k]`, `sizes[k]`.  `free` are all sizes of the whole."""

    ports: tuple[Mapping[str, str], ...]
    sizes: tuple[Mapping[str, str], ...]
    free: tuple[str, ...]

    def bound(self, k: int, sizes: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
        """All sizes of the whole so that it runs the k-th program at `sizes`; `counts` says how many elements each of that one's arrays has in memory."""
        found = dict.fromkeys(self.free, 0)
        found |= {self.sizes[k][name]: value for name, value in sizes.items()}
        return found | {f"{self.ports[k][name]}.n": value for name, value in counts.items()} | {WHICH: k}


@record
class Merged(Names):
    """`program` runs the k-th of what it was made of where the size `which` is k."""

    program: Program


def merge(programs: Sequence[Program], name: str) -> Merged:
    """See the head of this file.  All programs are for one target."""
    pool: Pool = {}
    ports: list[dict[str, str]] = []
    sizes: list[dict[str, str]] = []
    functions: list[Function] = []
    entry: list[If] = []
    workspaces: list[Expr] = []
    for k, program in enumerate(programs):
        names = _shared(program, pool)
        own = {s: f"u{k}.{s}" for s in [*(s.name for s in program.sizes), *(n for p in program.ports for n in p.strided)]}
        change = substitution({size(old): size(new) for old, new in own.items()})
        functions += [_renamed(f, k, own, change) for f in program.functions]
        entry.append(If(call("equal", size(WHICH), const(k)), _entry(program, k, names, change)))
        workspaces += [] if program.workspace is None else [change(program.workspace)]
        ports.append(names)
        sizes.append(own)
    shared = tuple(
        Port(name := _pooled(role, dtype, pairs, k), DTYPES[dtype], () if role == "scalar" else (size(f"{name}.n"),), role, pairs=pairs)
        for (role, dtype, pairs), count in sorted(pool.items())
        for k in range(count)
    )
    free = (Size(WHICH), *(Size(new) for own in sizes for new in own.values()), *(Size(f"{p.name}.n") for p in shared if p.shape))
    workspace = total(workspaces) if workspaces else None
    whole = Program(name, free, shared, tuple(functions), tuple(entry), target=programs[0].target, workspace=workspace)
    return Merged(tuple(ports), tuple(sizes), tuple(s.name for s in free), whole)


Pool = dict[tuple[str, str, bool], int]  # (role, dtype, pairs) -> how many ports of it the whole has


def _shared(program: Program, pool: Pool) -> dict[str, str]:
    """The program's ports by their names in the whole, which grows by those that it has not."""
    counts: Pool = {}
    names: dict[str, str] = {}
    for p in program.ports:
        key = ("out" if p.role == "inout" else p.role, p.dtype.name, p.pairs)
        names[p.name] = _pooled(*key, counts.get(key, 0))
        counts[key] = counts.get(key, 0) + 1
        pool[key] = max(pool.get(key, 0), counts[key])
    return names


def _pooled(role: str, dtype: str, pairs: bool, k: int) -> str:
    return f"{role}.{dtype}{'.pairs' if pairs else ''}.{k}"


def _renamed(f: Function, k: int, sizes: Mapping[str, str], change: Any) -> Function:
    """A function is its own name space but for the sizes, which are the program's wherever a parameter is called as one, and for the functions that it calls."""
    params = tuple(replace(p, name=sizes[p.name]) if not p.pointer and p.dtype is INDEX and p.name in sizes else p for p in f.params)

    def calls(s: Any) -> Block | None:
        return (Call(f"u{k}.{s.function}", s.args),) if isinstance(s, Call) else None

    body = map_block(map_expressions(f.body, change), calls)
    return Function(f"u{k}.{f.name}", params, body, tuple(map(change, f.grid)), tuple(map(change, f.threads)), f.fails)


def _entry(program: Program, k: int, ports: Mapping[str, str], change: Any) -> Block:
    by_value = [
        (old, new) for p in program.ports if p.role == "scalar" for old, new in zip(p.values, replace(p, name=ports[p.name]).values, strict=True)
    ]
    scalars: dict[Expr, Expr] = {var(*old): var(*new) for old, new in by_value}

    def expression(e: Expr) -> Expr:
        return rewrite(substitute(change(e), scalars), name_buffers)

    def name_buffers(n: Expr) -> Expr | None:
        if n.op == "null" and n.attr in ports:
            return make("null", n.dtype, n.args, ports[n.attr])
        if n.op == "overlap":
            return make("overlap", n.dtype, n.args, tuple(ports.get(b, b) for b in n.attr))
        return None

    def calls(s: Any) -> Block | None:
        if not isinstance(s, Call):
            return None
        return (Call(f"u{k}.{s.function}", tuple(ports.get(a, a) if isinstance(a, str) else a for a in s.args)),)

    return map_block(map_expressions(program.entry, expression), calls)


__all__ = ["WHICH", "Merged", "Names", "merge"]
