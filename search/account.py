"""The whole of a composite in figures: buffers, kernels, workspace, as formulas and at given sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..ir.expr import Expr, size, total, var
from ..ir.kernel import Buffer, Module, port_buffer
from ..ir.program import Call, Define, For, Function, Program, Region, Scratch, Stmt, statements
from ..ir.record import record, replace
from ..ir.simplify import simplify
from ..ir.text import show_expr
from ..ir.walks import substitute
from .work import Work, amount, work_of

T = TypeVar("T")


@record
class BufferAccount:
    name: str
    role: str  # in | out | inout | scalar | temp
    type: str  # f32[M, N]
    formula: str  # bytes
    value: int


@record
class KernelAccount:
    work: Work
    bytes: str
    flops: str
    bytes_value: int
    flops_value: int
    reads: dict[str, int]  # buffer -> bytes
    writes: dict[str, int]
    scratch: tuple[str, str]  # bytes that it allocates while it runs, once and for each thread: formulas
    scratch_values: tuple[int, int]
    share: float  # of the estimated time of all kernels
    bound: str  # memory | arithmetic


@record
class Account:
    name: str
    sizes: dict[str, int]
    buffers: tuple[BufferAccount, ...]
    kernels: tuple[KernelAccount, ...]
    workspace: str  # bytes of temporaries at one time, a formula
    workspace_value: int

    @property
    def peak_value(self) -> int:
        """Bytes at one time beside the ports, for one thread: the workspace, and the scratch of the kernel that needs most."""
        return self.workspace_value + max((sum(k.scratch_values) for k in self.kernels), default=0)

    @property
    def bytes_value(self) -> int:
        return sum(k.bytes_value for k in self.kernels)

    @property
    def flops_value(self) -> int:
        return sum(k.flops_value for k in self.kernels)

    @property
    def bottleneck(self) -> str:
        """The kernel that takes the largest share; "" where there is none."""
        return max(self.kernels, key=lambda k: k.share).work.kernel if self.kernels else ""


def account(nests: Module, program: Program, sizes: Mapping[str, int]) -> Account:
    """`nests`: the kernels before they are scheduled; `program`: what they become, whose workspace is counted; `sizes`: a value for each free size."""
    found = work_of(nests)
    whole = sum(w.cost(sizes) for w in found) or 1.0
    scratch = _scratch(nests, program)
    kernels = tuple(
        KernelAccount(
            w, show_expr(w.bytes), show_expr(w.flops), amount(w.bytes, sizes), amount(w.flops, sizes),
            {n: amount(e, sizes) for n, e in w.reads.items()}, {n: amount(e, sizes) for n, e in w.writes.items()},
            pair(show_expr, scratch[w.kernel]), pair(lambda e: amount(e, sizes), scratch[w.kernel]), w.cost(sizes) / whole, w.bound(sizes),
        )
        for w in found
    )  # fmt: skip
    roles = [(port_buffer(replace(p, pairs=False)), p.role) for p in nests.ports] + [(t, "temp") for t in nests.temps]
    workspace = None if program.workspace is None else simplify(program.workspace)
    return Account(
        nests.name, dict(sizes), tuple(buffer(b, role, sizes) for b, role in roles), kernels,
        "0" if workspace is None else show_expr(workspace), 0 if workspace is None else amount(workspace, sizes),
    )  # fmt: skip


def _scratch(nests: Module, program: Program) -> dict[str, tuple[Expr, Expr]]:
    """For each kernel what the function allocates that the entry calls for it: the one of its name, or that of a kernel which is alike, whose further calls are those of the others in turn."""
    functions = {f.name: (f, scratch_of(f)) for f in program.functions}
    calls: dict[str, Call] = {}
    further: list[Call] = []
    for call in (s for s in statements(program.entry) if isinstance(s, Call)):
        if calls.setdefault(call.function, call) is not call:
            further.append(call)
    rest = iter(further)
    found: dict[str, tuple[Expr, Expr]] = {}
    for kernel in nests.kernels:
        call = calls.get(kernel.name) or next(rest)
        f, (whole, each) = functions[call.function]
        here = {size(p.name): a for p, a in zip(f.params, call.args, strict=True) if isinstance(a, Expr)}
        found[kernel.name] = substitute(whole, here), substitute(each, here)
    return found


def scratch_of(function: Function) -> tuple[Expr, Expr]:
    """Bytes that a kernel allocates: once, and in each thread (what stands inside a region or a parallel loop).  Local names in a formula are replaced by
    what they are defined as."""
    found: tuple[list[Expr], list[Expr]] = ([], [])
    lets: dict[Expr, Expr] = {}
    stack: list[tuple[Stmt, bool]] = [(s, False) for s in reversed(function.body)]
    while stack:
        s, team = stack.pop()
        if isinstance(s, Define) and s.value is not None:
            lets[var(s.name, s.dtype)] = substitute(s.value, lets)
        elif isinstance(s, Scratch):
            found[team].append(substitute(s.count, lets) * s.dtype.bytes)
        team = team or isinstance(s, Region) or (isinstance(s, For) and s.pragma == "parallel")
        stack += [(t, team) for inside in reversed(s.blocks()) for t in reversed(inside)]
    return simplify(total(found[0])), simplify(total(found[1]))


def buffer(b: Buffer, role: str, sizes: Mapping[str, int]) -> BufferAccount:
    size = simplify(b.elements * b.dtype.bytes)
    shape = ", ".join(show_expr(e) for e in b.shape)
    return BufferAccount(b.name, role, f"{b.dtype.name}[{shape}]", show_expr(size), amount(size, sizes))


def pair(change: Callable[[Expr], T], both: tuple[Expr, Expr]) -> tuple[T, T]:
    return change(both[0]), change(both[1])
