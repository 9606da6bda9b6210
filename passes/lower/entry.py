"""The entry: what the user's call does around the kernels.  Checks in a fixed order, temporaries, the calls."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import kernel as k
from ...ir import program as p
from ...ir.dtypes import f64
from ...ir.expr import FALSE, ONE, TRUE, ZERO, Expr, both, call, cast, const, maximum, null, overlap, postorder, size, total, var
from ...ir.graph import Port, Size
from .flatten import span

LIMIT = 2.0**62  # bytes; a count below it in f64 is below 2**63 exactly, whatever the rounding
ANY = Size("")  # what is known of a size of which nothing is


def fail_if(condition: Expr | None, code: int) -> p.Block:
    return () if condition is None or condition is FALSE else (p.If(condition, (p.Fail(code),)),)


def either(conditions: list[Expr]) -> Expr | None:
    result: Expr | None = None
    for c in conditions:
        result = c if result is None else call("bit_or", result, c)
    return result


def has_elements(b: k.Buffer) -> Expr | None:
    """None where it always has some.  No product: the sizes are not checked yet where this is asked first."""
    return both(*(TRUE if e.is_const and e.attr > 0 else ZERO.lt(e) for e in b.shape))


def checks(module: k.Module) -> p.Block:
    """Null pointers, negative sizes, counts that overflow, preconditions, overlapping outputs; each leaves with its own code."""
    pointers = [(port, k.port_buffer(port)) for port in module.ports if port.role != "scalar"]
    nulls = [both(null(b.name), has_elements(b)) for _, b in pointers]
    negative = [size(s.name).lt(0) for s in module.sizes]
    spans = [(b, span(b) * b.dtype.bytes) for b in (*(b for _, b in pointers), *module.temps)]
    large = [const(LIMIT, f64).lt(m) for m in dict.fromkeys(m for _, e in spans for m in magnitudes(e))]
    return (
        *(s for n in nulls for s in fail_if(n, p.NULL_POINTER)),
        *fail_if(either(negative), p.BAD_SIZE),
        *(s for m in large for s in fail_if(m, p.BAD_SIZE)),
        *(s for size_ in module.sizes for s in fail_if(either(bounds(size_)), p.PRECONDITION)),
        *(s for port, b in pointers for s in fail_if(either(strides(port, b)), p.PRECONDITION)),
        *(s for r in module.requires for s in fail_if(call("bit_not", r), p.PRECONDITION)),
        *fail_if(either(overlaps(pointers)), p.OVERLAP),
    )


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


def overlaps(pointers: list[tuple[Port, k.Buffer]]) -> list[Expr]:
    """Every written port with every other one; in place means one port, so it never meets itself."""

    def bytes_of(b: k.Buffer) -> Expr:
        count = span(b) * b.dtype.bytes
        some = has_elements(b)
        return count if not b.strides or some is None else call("where", some, count, ZERO)

    return [
        overlap(a.name, bytes_of(a), b.name, bytes_of(b))
        for i, (pa, a) in enumerate(pointers)
        for pb, b in pointers[i + 1 :]
        if pa.role != "in" or pb.role != "in"
    ]


def magnitudes(e: Expr) -> list[Expr]:
    """Bounds, computed in f64, on the size of every intermediate result of the count `e`; those that cannot be large are left out.

    |a + b| ≤ |a| + |b|, |a · b| ≤ max(|a|, 1) · max(|b|, 1) (so that a factor 0 does not hide what is multiplied before it), |a // b| ≤ |a|, |a % b| ≤ |b|.
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
            case "add" | "sub" | "max" | "min":
                bound[n] = call("add", *args)
            case "mod":
                bound[n] = args[1]
            case _:
                bound[n] = args[0] if len(args) < 3 else call("add", args[1], args[2])
        if n.op in ("floordiv", "mod", "less_than", "less_equal", "equal", "max", "min"):
            found += [bound[a] for a in n.args if a.op not in ("size", "const")]
    if e.op not in ("size", "const"):
        found.append(bound[e])
    return found


# ---- temporaries


@dataclass(frozen=True, slots=True)
class Home:
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


def entry(module: k.Module, functions: tuple[p.Function, ...]) -> tuple[p.Block, Expr | None]:
    """The entry block, and the formula of the workspace."""
    scratches, where = temporaries(module)
    calls: list[p.Stmt] = []
    for f in functions:
        args: list[Expr | str] = []
        for param in f.params:
            if param.pointer:
                args.append(where.get(param.name, param.name))
            elif any(s.name == param.name for s in module.sizes):
                args.append(size(param.name))
            else:
                args.append(var(param.name, param.dtype))
        call_ = p.Call(f.name, tuple(args))
        some = both(*(ZERO.lt(g) for g in f.grid if not g.is_const))  # a grid without blocks is no launch
        calls.append(call_ if some is None else p.If(some, (call_,)))
    return (*checks(module), *scratches, *calls), workspace(scratches)
