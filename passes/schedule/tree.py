"""What every step needs to know of a kernel's tree: finding loops, names that are free, copies with names of their own.

Names of axes, lets and local buffers are unique within a kernel, so a step addresses a loop by its axis alone.  `unique` brings any kernel into that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain, count, product
from string import ascii_lowercase
from typing import Final

from ...ir.bounds import Known
from ...ir.conditions import fixed_sizes
from ...ir.expr import Expr, call, const, make, var, where
from ...ir.graph import Size
from ...ir.kernel import (
    Alloc,
    Block,
    Buffer,
    If,
    Kernel,
    Loop,
    Module,
    Region,
    Stmt,
    Store,
    While,
    loads_in as loads_in,
    map_expressions,
    reads as reads,
    sized,
    statements,
    with_body,
    written,
)
from ...ir.places import Homes, homes_in, inner, numbers, path_at, path_of, settle, unsettle
from ...ir.record import record, replace
from ...ir.renaming import defined, unique_locals
from ...ir.simplify import assuming
from ...ir.walks import postorder, rebuild, rewrite


class StepError(Exception):
    """A step that would change the meaning, or that does not apply: the message says why."""


class Never(StepError):
    """What it would do has a condition that never holds at these sizes."""


class TooMuch(StepError):
    """More memory than the threads of a block share."""


@record
class Facts:
    """What a step may know besides the kernel."""

    buffers: Mapping[str, Buffer] = field(default_factory=dict)  # ports and temps
    sizes: Mapping[str, Size] = field(default_factory=dict)
    strict: bool = False  # float reductions keep their order
    assumed: Expr | None = None  # a condition on the sizes under which the kernel runs
    branch: Expr | None = None  # such a condition that stands in its text, for what hangs on how far memory is
    shared_bytes: int = 48 << 10  # what the threads of a block may share
    known: Known = field(init=False, compare=False)  # the sizes' bounds and the condition, for proofs

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", assuming(Known(dict(self.sizes)), self.assumed))
        if fixed := fixed_sizes(self.assumed):
            object.__setattr__(self, "buffers", {n: sized(b, fixed) for n, b in self.buffers.items()})

    @staticmethod
    def of(module: Module, strict: bool = False, shared_bytes: int = 48 << 10) -> Facts:
        buffers = {n: module.buffer(n) for n in (*(p.name for p in module.ports), *(t.name for t in module.temps))}
        return Facts(buffers, _at_least(module.size_info(), module.requires), strict, shared_bytes=shared_bytes)


def _at_least(sizes: dict[str, Size], requires: Sequence[Expr]) -> dict[str, Size]:
    """The sizes with what preconditions say of one alone, `3 <= W`: the length W - 2 of a row of windows is no less than 0."""
    found = dict(sizes)
    for r in requires:
        if r.op == "less_equal" and r.args[0].is_const and r.args[1].op == "size":
            size = found[r.args[1].attr]
            found[size.name] = replace(size, min=max(size.min, r.args[0].attr))
    return found


# ---- finding


def all_loops(where: Kernel | Block) -> list[Loop]:
    """The loops of a kernel or of a block, outer before inner, in order."""
    return [s for s in statements(where.body if isinstance(where, Kernel) else where) if isinstance(s, Loop)]


def around(kernel: Kernel, axis: str) -> tuple[Stmt, ...]:
    """What encloses the loop over `axis`, outermost first, the loop itself last; a StepError that lists the axes where there is none."""
    path = path_of(kernel, axis)
    if not path or not isinstance(path[-1], Loop):
        raise StepError(f"no axis `{axis}`; the kernel has {', '.join(loop.axis for loop in all_loops(kernel)) or 'none'}")
    return path


def find(kernel: Kernel, axis: str) -> Loop:
    """The loop over `axis`, or a StepError that lists the axes there are."""
    loop = around(kernel, axis)[-1]
    assert isinstance(loop, Loop)
    return loop


def loop_around(kernel: Kernel, loop: Loop) -> Loop | None:
    """The loop in whose body a loop of the kernel stands; None where that is no loop."""
    path = path_of(kernel, loop.axis)
    outer = path[-2] if len(path) > 1 and path[-1] is loop else None
    return outer if isinstance(outer, Loop) else None


def path_to(block: Block, wanted: Callable[[Stmt], bool]) -> tuple[Stmt, ...]:
    """The statements around (and with) the first statement that is `wanted`, outermost first; empty where there is none."""
    for s in block:
        if wanted(s):
            return (s,)
        for body in s.blocks():
            inner = path_to(body, wanted)
            if inner:
                return (s, *inner)
    return ()


def added(kernel: Kernel, before: Kernel) -> list[Stmt]:
    """The statements that introduce a name which `before` does not have, outer before inner, in order."""
    homes, old = homes_in(kernel), homes_in(before)
    found = sorted([numbers(homes[name]) for name in [name for name in homes if name not in old]])
    return [path_at(kernel.body, at)[-1] for at in found]


def replace_at(block: Block, path: Sequence[Stmt], new: Block) -> Block:
    """The block with the last statement of a path through it replaced; only what is on the path is made anew."""
    for k in range(len(path) - 1, 0, -1):
        parent, old = path[k - 1], path[k]
        if isinstance(parent, Loop):
            body = new if len(parent.body) == 1 else _spliced(parent.body, old, new)
            new = (Loop(parent.axis, parent.start, parent.stop, body, parent.kind, parent.step, parent.span),)
        elif isinstance(parent, If) and any(s is old for s in parent.body):
            new = (If(parent.condition, _spliced(parent.body, old, new), parent.orelse),)
        elif isinstance(parent, If):
            new = (If(parent.condition, parent.body, _spliced(parent.orelse, old, new)),)
        else:
            assert isinstance(parent, (While, Region))
            new = (with_body(parent, _spliced(parent.body, old, new)),)
    return _spliced(block, path[0], new)


def _spliced(block: Block, old: Stmt, new: Block) -> Block:
    if len(block) == 1:
        assert block[0] is old
        return new
    place = 0
    while block[place] is not old:
        place += 1
    return (*block[:place], *new, *block[place + 1 :])


def replace_in(block: Block, old: Stmt, new: Block) -> Block:
    """The block with the one statement that *is* `old` (identity) replaced."""
    path = (old,) if any(s is old for s in block) else path_to(block, lambda s: s is old)
    return replace_at(block, path, new)


def replace_loop(kernel: Kernel, axis: str, change: Callable[[Loop], Block]) -> Kernel:
    path = around(kernel, axis)
    loop = path[-1]
    assert isinstance(loop, Loop)
    new = change(loop)
    body = replace_at(kernel.body, path, new)
    return kernel.with_body(body, _homes_after(kernel, axis, path, new, body))


def of_kind(kernel: Kernel, path: Sequence[Stmt], kind: str) -> Kernel:
    """The kernel with the loop at the end of a path of this kind; everything stands where it stood."""
    loop = path[-1]
    assert isinstance(loop, Loop)
    new = Loop(loop.axis, loop.start, loop.stop, loop.body, kind, loop.step, loop.span)
    return kernel.with_body(replace_at(kernel.body, path, (new,)), homes_in(kernel))


def _homes_after(kernel: Kernel, axis: str, path: Sequence[Stmt], new: Block, body: Block) -> Homes:
    """Where everything is when `new` has taken the place of the loop at the end of a path, in the kernel with this body."""
    homes, old = homes_in(kernel), path[-1]
    if len(new) == 1 and isinstance(new[0], Loop) and isinstance(old, Loop) and new[0].axis == axis and new[0].body is old.body:
        return homes
    outer, k = homes[axis]
    result = dict(homes)
    if len(new) == 1:
        unsettle((old,), result)
    else:  # what stands behind it moves
        unsettle((kernel.body if outer is None else inner(path[-2]))[k:], result)
        new = (body if outer is None else inner(path_at(body, numbers(outer))[-1]))[k:]
    settle(new, outer, result, k)
    return result


def nest(kernel: Kernel, axes: tuple[str, ...]) -> tuple[Loop, ...]:
    """The loops over `axes`, each the only statement of the one before; a StepError where something stands between them."""
    loops = [find(kernel, axes[0])]
    for axis in axes[1:]:
        body = loops[-1].body
        if len(body) != 1 or not isinstance(body[0], Loop) or body[0].axis != axis:
            raise StepError(f"`{axis}` is not the only statement directly inside `{loops[-1].axis}`")
        loops.append(body[0])
    return tuple(loops)


def local_buffers(kernel: Kernel) -> dict[str, Buffer]:
    return {s.buffer.name: s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)}


# ---- what a piece reads and writes


def storing(block: Block, buffer: str) -> list[tuple[Store, tuple[Loop, ...]]]:
    """The statements that store into a buffer, each with the loops around it, outermost first."""
    found: list[tuple[Store, tuple[Loop, ...]]] = []

    def walk(block: Block, loops: tuple[Loop, ...]) -> None:
        for s in block:
            if isinstance(s, Store):
                if s.buffer == buffer:
                    found.append((s, loops))
            elif isinstance(s, Loop):
                walk(s.body, (*loops, s))
            elif isinstance(s, (If, While, Region)):
                walk(inner(s), loops)

    walk(block, ())
    return found


def touched(block: Block) -> set[str]:
    return written(block).union(*[e.buffers for s in statements(block) for e in s.expressions()])


# ---- names


def fresh(name: str, taken: set[str]) -> str:
    """`name`, or `name.b`, `name.c`, … : the first that is not taken.  It is taken afterwards."""
    if name in taken:
        base = name[:-2] if name[-2:-1] == "." and name[-1] in ascii_lowercase else name
        for letters in chain(ascii_lowercase[1:], _longer()):
            name = f"{base}.{letters}"
            if name not in taken:
                break
    taken.add(name)
    return name


def _longer() -> Iterator[str]:
    """aa, ab, …"""
    for more in count(2):
        yield from map("".join, product(ascii_lowercase, repeat=more))


def names_taken(kernel: Kernel) -> set[str]:
    return {*homes_in(kernel), *kernel.buffers}


BOUND: Final = frozenset({"var", "first", "last", "load"})  # what mentions a bound name


def rename(block: Block, names: dict[str, str], mentions: frozenset[str] = BOUND) -> Block:
    """The block with bound names (axes, lets, local buffers) and their uses changed; with other `mentions` also what they mention."""
    if not names:
        return block

    done: dict[Expr, Expr] = {}  # statements share most of what they are made of
    old = frozenset(names)

    def changed(e: Expr) -> Expr:
        if e in done or (old.isdisjoint(e.names) and old.isdisjoint(e.buffers)):
            return done.get(e, e)
        for n in postorder(e):
            if n in done:
                continue
            if old.isdisjoint(n.names) and old.isdisjoint(n.buffers):
                done[n] = n
                continue
            args = tuple([done[a] for a in n.args])
            own = n.op in mentions and n.attr in names
            done[n] = make(n.op, n.dtype, args, names[n.attr]) if own else rebuild(n, args)
        return done[e]

    return map_expressions(block, changed, names)


def copy(block: Block, taken: set[str]) -> Block:
    """The block again, with fresh names for everything that it introduces."""
    names = {n: fresh(n, taken) for n in defined(block)}
    return rename(block, {n: new for n, new in names.items() if n != new})


def unique(kernel: Kernel) -> Kernel:
    """The kernel with every axis, let and local buffer named differently."""
    bound = defined(kernel.body)
    if len(set(bound)) == len(bound) and not set(bound) & set(kernel.buffers):
        return kernel
    taken = set(kernel.buffers)
    return kernel.with_body(unique_locals(kernel.body, lambda name: fresh(name, taken)))


# ---- small expressions


def index(loop: Loop) -> Expr:
    return var(loop.axis)


def simple(e: Expr) -> Expr:
    """Fold what a proven guard leaves behind: true in a conjunction, in a `where`; constants in comparisons."""

    def rule(n: Expr) -> Expr | None:
        if n.op == "where" and n.args[0].is_const:
            return n.args[1] if n.args[0].attr else n.args[2]
        if n.op == "bit_and" and n.dtype.kind == "bool":
            a, b = n.args
            if a.is_const:
                return b if a.attr else a
            if b.is_const:
                return a if b.attr else b
        return None

    return rewrite(e, rule)


def unless(condition: Expr, e: Expr) -> Expr:
    """A value where the condition holds, zero elsewhere; of one that is chosen so already, by both conditions at once."""
    zero = const(0, e.dtype)
    if e.op == "where" and e.args[2] is zero:
        return where(call("bit_and", condition, e.args[0]), e.args[1], zero)
    return where(condition, e, zero)


def walk_paths(block: Block) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """Every statement with what encloses it, outer before inner."""
    waiting: list[tuple[Stmt, tuple[Stmt, ...]]] = [(s, ()) for s in reversed(block)]
    while waiting:
        s, path = waiting.pop()
        yield s, path
        if isinstance(s, (Loop, If, While, Region)):
            inside = (*path, s)
            waiting += [(t, inside) for t in reversed(inner(s))]
