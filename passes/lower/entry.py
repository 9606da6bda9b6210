"""The entry: what the user's call does around the kernels.  Checks in a fixed order, temporaries, the calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...ir import kernel as k, program as p
from ...ir.dtypes import f64
from ...ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, call, cast, const, maximum, null, overlap, size, total, var
from ...ir.graph import Port, Size
from ...ir.simplify import simplify
from ...ir.walks import postorder
from .flatten import span
from .names import Names

LIMIT = 2.0**62  # bytes; a count below it in f64 is below 2**63 exactly, whatever the rounding
ANY = Size("")  # what is known of a size of which nothing is


def either(conditions: list[Expr]) -> Expr | None:
    result: Expr | None = None
    for c in conditions:
        result = c if result is None else call("bit_or", result, c)
    return result


def has_elements(b: k.Buffer) -> Expr | None:
    """None where it always has some.  No product: the sizes are not checked yet where this is asked first."""
    return both(*(TRUE if e.is_const and e.attr > 0 else ZERO.lt(e) for e in b.shape))


def checks(module: k.Module, names: Names) -> p.Block:
    """Null pointers, negative sizes, counts that overflow, preconditions, overlapping outputs; each leaves with its own code."""
    pointers = [(port, k.port_buffer(port)) for port in module.ports if port.role != "scalar"]
    spans = dict.fromkeys(span(b) * b.dtype.bytes for b in (*(b for _, b in pointers), *module.temps))
    found = [
        *((both(null(b.name), has_elements(b)), p.NULL_POINTER) for _, b in pointers),
        (either([size(s.name).lt(0) for s in module.sizes]), p.BAD_SIZE),
        *((const(LIMIT, f64).lt(m), p.BAD_SIZE) for e in spans for m in magnitudes(e)),
        *((c, p.PRECONDITION) for s in module.sizes for c in bounds(s)),
        *((c, p.PRECONDITION) for port, b in pointers for c in strides(port, b)),
        *((simplify(call("bit_not", r)), p.PRECONDITION) for r in module.requires),
    ]
    tests = (p.If(c, (p.Fail(code),)) for c, code in dict.fromkeys(found) if c is not None and c is not FALSE)
    return (*tests, *overlaps(pointers, names))


def bounds(s: Size) -> list[Expr]:
    """How a size breaks what is declared of it, negative ones apart."""
    n = size(s.name)
    result: list[Expr] = []
    if s.min > 0:
        result.append(n.lt(s.min))
    if s.max < ANY.max:
        result.append(const(s.max).lt(n))
    if s.multiple > 1:
        result.append(call("not_equal", n % s.multiple, ZERO))
    return result


def strides(port: Port, b: k.Buffer) -> list[Expr]:
    """A written port whose given strides make two elements fall together would be a race."""
    if port.role == "in" or not port.strided:
        return []
    order = port.memory_order
    inner = [b.stride(axis) * b.shape[axis] for axis in order[1:]] + [ONE]
    return [b.stride(order[place]).lt(inner[place]) for place in range(len(port.strided))]


def overlaps(pointers: list[tuple[Port, k.Buffer]], names: Names) -> p.Block:
    """Every written port with every other one; in place means one port, so it never meets itself."""
    lets: list[p.Define] = []
    extent: dict[str, Expr] = {}  # bytes of a port
    written = [i for i, (port, _) in enumerate(pointers) if port.role != "in"]
    if not written or len(pointers) < 2:
        return ()
    for port, b in pointers:
        count = span(b) * b.dtype.bytes
        some = has_elements(b)
        if port.strided and some is not None:
            count = call("where", some, count, ZERO)
        if not count.is_const:
            lets.append(p.Define(names.fresh(f"{b.name}.bytes"), count.dtype, count))
            count = var(lets[-1].name)
        extent[b.name] = count
    tests: list[p.Stmt] = []
    for i in written:
        others = [o for j, (_, o) in enumerate(pointers) if j != i and (j not in written or j > i)]
        b = pointers[i][1]
        meets = either([overlap(b.name, extent[b.name], o.name, extent[o.name]) for o in others])
        if meets is not None:
            tests.append(p.If(meets, (p.Fail(p.OVERLAP),)))
    return (*lets, *tests)


def magnitudes(e: Expr) -> list[Expr]:
    """Bounds, computed in f64, on the size of every intermediate result of the count `e`; those that cannot be large are left out.

    |a + b| ≤ |a| + |b|, |a · b| ≤ max(|a|, 1) · max(|b|, 1) (so that a factor 0 does not hide what is multiplied before it), |max(a, b)| ≤ max(|a|, |b|),
    |a // b| ≤ |a|, and for a number b of at least 2 |a| / b + 1, |a % b| ≤ |b|.
    """
    bound: dict[Expr, Expr] = {}
    found: list[Expr] = []
    one = const(1.0, f64)
    for n in postorder(e):
        args = [bound[a] for a in n.args]
        match n.op:
            case "const":
                bound[n] = const(float(max(1, abs(n.attr))), f64)
            case "size" | "var":
                bound[n] = cast(f64, maximum(n, 1))
            case "mul":
                a, b = args
                bound[n] = a if b is one else b if a is one else call("mul", a, b)
            case "add" | "sub":
                bound[n] = call("add", *args)
            case "max" | "min":
                bound[n] = call("max", *args)
            case "floordiv" if n.args[1].is_const and n.args[1].attr > 1:
                bound[n] = call("add", call("mul", args[0], const(1 / n.args[1].attr, f64)), one)
            case "mod":
                bound[n] = args[1]
            case _:
                bound[n] = args[0] if len(args) < 3 else call("add", args[1], args[2])
        if n.op in ("floordiv", "mod", "less_than", "less_equal", "equal", "max", "min"):
            found += [bound[a] for a in n.args]
    found.append(bound[e])
    return [m for m in found if m.args and m.op != "cast"]  # a size by itself was checked, a number needs no check


# ---- temporaries


class Home(NamedTuple):
    """The memory that a temporary lives in, perhaps after another of the same size."""

    name: str
    buffer: k.Buffer
    last_use: int


def temporaries(module: k.Module) -> tuple[tuple[p.Scratch, ...], dict[str, str]]:
    """The scratch memory of all temporaries, and which one each of them lives in.

    A linear scan over the launches: a temporary takes over the memory of one with the same dtype and the same formula of its size whose last use is over.
    """
    uses = {t.name: [i for i, kernel in enumerate(module.kernels) if t.name in kernel.buffers] for t in module.temps}
    homes: list[Home] = []
    where: dict[str, str] = {}
    for t in sorted((t for t in module.temps if uses[t.name]), key=lambda t: uses[t.name][0]):
        begin, end = uses[t.name][0], uses[t.name][-1]
        for i, home in enumerate(homes):
            if home.last_use < begin and home.buffer.dtype is t.dtype and span(home.buffer) is span(t):
                homes[i] = Home(home.name, home.buffer, end)
                where[t.name] = home.name
                break
        else:
            homes.append(Home(t.name, t, end))
            where[t.name] = t.name
    return tuple(p.Scratch(h.name, h.buffer.dtype, span(h.buffer), max(64, h.buffer.align)) for h in homes), where


def workspace(scratches: tuple[p.Scratch, ...]) -> Expr | None:
    """Bytes of all temporaries, each rounded up to 64; None where there are none."""
    if not scratches:
        return None
    return total((s.count * s.dtype.bytes + 63) // 64 * 64 for s in scratches)


class Launch(NamedTuple):
    """A function, and what its parameters stand for where that is not what they are called."""

    function: p.Function
    names: Mapping[str, str]


Choice = Sequence[tuple[Expr | None, Launch]]  # of functions that do the same, the first whose condition on the sizes holds; the last has none


def entry(module: k.Module, choices: Sequence[Choice]) -> tuple[p.Block, Expr | None]:
    """The entry block, and the formula of the workspace."""
    scratches, where = temporaries(module)

    def call_(launch: Launch) -> p.Block:
        f, renamed = launch
        args: list[Expr | str] = []
        for param in f.params:
            name = renamed.get(param.name, param.name)
            if param.pointer:
                args.append(where.get(name, name))
            elif any(s.name == name for s in module.sizes):
                args.append(size(name))
            else:
                args.append(var(name, param.dtype))
        made: p.Block = (p.Call(f.name, tuple(args)),)
        some = both(*(ZERO.lt(g) for g in f.grid if not g.is_const))  # a grid without blocks is no launch
        return made if some is None else (p.If(some, made),)

    calls: list[p.Stmt] = []
    for choice in choices:
        block: p.Block = ()
        for condition, launch in reversed(choice):
            block = call_(launch) if condition is None else (p.If(condition, call_(launch), block),)
        calls += block
    functions = (launch.function for choice in choices for _, launch in choice)
    names = Names([s.name for s in (*module.sizes, *module.ports, *module.temps, *functions)])
    return (*checks(module, names), *scratches, *calls), workspace(scratches)
