"""Rules of the kernel level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod

from ..dtypes import INDEX, bool_
from ..expr import ZERO, Expr, var
from ..instructions import INSTRUCTIONS, LANE_BY_LANE
from ..kernel import KINDS, SPACES, Alloc, Barrier, Check, If, Kernel, Let, Loop, Module, Nest, Prefetch, Region, Store, While, port_buffer
from ..polynomial import coefficient, poly
from ..primops import COMBINERS, OPS
from ..swizzle import ALIGN, PIECE, fits
from ..warps import NoProduct, product
from .body import Body
from .expressions import VECTOR_FORMS, mistyped, operands_of
from .header import header_rules, size_names, undeclared
from .races import accumulations, arrivals, races
from .rule import Rule, repeated


class Subject:
    """A module with its kernels laid out."""

    def __init__(self, module: Module) -> None:
        self.whole = module
        self.sizes = size_names(module.sizes, module.ports)
        buffers = {b.name: b for b in (*map(port_buffer, module.ports), *module.temps)}
        variables = dict(v for p in module.ports if p.role == "scalar" for v in p.values)
        readonly = frozenset(p.name for p in module.ports if p.role in ("in", "scalar"))
        self.bodies = [Body(f"kernel {k.name}", k.body, buffers, variables, self.sizes, readonly, True) for k in module.kernels]

    def kernels(self) -> Iterator[tuple[Kernel, Body]]:
        return zip(self.whole.kernels, self.bodies, strict=True)


def _names(body: Body) -> Iterator[str]:
    for p in body.places:
        for n in p.names:
            if n.op == "size" and n.attr not in body.sizes:
                yield f"{n.attr} is no declared size"
            elif n.op == "var" and n.attr not in p.variables:
                yield f"{n.attr} is used before it is declared"
            elif n.op in ("load", "to_line") and n.attr not in p.buffers:
                yield f"{n.attr} is read before it is declared"
        if isinstance(p.stmt, Store) and p.stmt.buffer not in p.buffers:
            yield f"{p.stmt.buffer} is written before it is declared"
        if isinstance(p.stmt, Prefetch) and p.stmt.buffer not in p.buffers:
            yield f"{p.stmt.buffer} is read before it is declared"


def _unique(body: Body) -> Iterator[str]:
    made: list[str] = []
    for p in body.places:
        name = _declared(p.stmt)
        if name is None:
            continue
        made.append(name)
        if name in body.sizes or name in p.buffers or name in p.variables:
            yield f"{name} is declared again"
    if body.unique:
        yield from (f"{name} is declared twice" for name in repeated(made))


def _declared(s: object) -> str | None:
    return s.axis if isinstance(s, Loop) else s.name if isinstance(s, Let) else s.buffer.name if isinstance(s, Alloc) else None


def _ranks(body: Body) -> Iterator[str]:
    for p in body.places:
        used = [(n.attr, len(n.args)) for n in p.names if n.op == "load"]
        if isinstance(p.stmt, Store):
            used.append((p.stmt.buffer, len(p.stmt.index)))
        for name, rank in used:
            if name in p.buffers and rank != len(p.buffers[name].shape):
                yield f"{name} has {len(p.buffers[name].shape)} axes and {rank} indices"


def _dtypes(body: Body) -> Iterator[str]:
    for p in body.places:
        for n in p.names:
            known = p.buffers[n.attr].dtype if n.op == "load" and n.attr in p.buffers else p.variables.get(n.attr) if n.op == "var" else None
            if known is not None and n.dtype is not known:
                yield f"{n!r} is read as {n.dtype}, it is {known}"
        s = p.stmt
        if isinstance(s, Store) and s.buffer in p.buffers:
            d = p.buffers[s.buffer].dtype
            if s.value.dtype is not d:
                yield f"{s.value.dtype} is stored to {s.buffer} of {d}"
            if s.combiner and s.combiner not in COMBINERS:
                yield f"there is no combiner {s.combiner}"
            elif s.combiner and (found := operands_of(OPS[COMBINERS[s.combiner].op], (d, d), d)):
                yield f"{s.buffer} {s.combiner}= …: {found}"


def _expressions(body: Body) -> Iterator[str]:
    for p in body.places:
        yield from mistyped(p.roots)
        for n in p.names:
            if n.op == "axis":
                yield f"{n!r} stands in a kernel"
        if any(e.dtype.lanes != 1 for e in p.roots):
            yield f"a vector in {p.roots[-1]!r}"
        s = p.stmt
        integers: tuple[Expr, ...] = ()
        if isinstance(s, (If, While, Check)) and s.condition.dtype is not bool_:
            yield f"the condition {s.condition!r} is {s.condition.dtype}"
        if isinstance(s, Loop):
            integers = (s.start, s.stop, s.step)
        elif isinstance(s, Store):
            integers = s.index
        elif isinstance(s, Prefetch):
            integers = (*s.index, s.ahead)
        elif isinstance(s, Alloc):
            integers = p.roots
        elif isinstance(s, While) and s.limit is not None:
            integers = (s.limit,)
        for e in integers:
            if e.dtype is not INDEX:
                yield f"the position or bound {e!r} is {e.dtype}"


def _loops(body: Body) -> Iterator[str]:
    for p in body.places:
        s = p.stmt
        if not isinstance(s, Loop):
            continue
        if s.kind not in KINDS:
            yield f"the axis {s.axis} has the kind {s.kind!r}"
        if s.step.is_const and s.step.attr == 0:
            yield f"the axis {s.axis} has the step 0"
        if s.kind in ("workshare", "queue") and not any(isinstance(a, Region) for a in p.around):
            yield f"the axis {s.axis} is shared among the threads of no region"


def _vectors(body: Body) -> Iterator[str]:
    for p in body.places:
        if isinstance(p.stmt, Loop) and p.stmt.kind in ("vector", "tile") and not _constant(p.stmt):
            yield f"the {p.stmt.kind} axis {p.stmt.axis} runs from {p.stmt.start!r} to {p.stmt.stop!r}"


def _matrices(body: Body) -> Iterator[str]:
    for p in body.places:
        if isinstance(p.stmt, Loop) and p.stmt.kind == "matrix":
            try:
                product(p.stmt, p.around, p.buffers)
            except NoProduct as e:
                yield f"the matrix axis {p.stmt.axis}: {e}"


def _constant(s: Loop) -> bool:
    if s.start.is_const and s.stop.is_const:
        return True
    from ..polynomial import is_constant, plus, poly

    return is_constant(plus(poly(s.stop), poly(s.start), -1))


def _allocations(body: Body) -> Iterator[str]:
    for p in body.places:
        if not isinstance(p.stmt, Alloc):
            continue
        b = p.stmt.buffer
        if b.space not in SPACES or b.space == "global":
            yield f"{b.name} is allocated in the space {b.space!r}"
        if b.space in ("register", "stack") and not all(e.is_const for e in b.shape):
            yield f"{b.name} in {b.space} has the shape {list(b.shape)}"
        if b.space == "shared" and any(isinstance(a, Region) for a in p.around):
            yield f"{b.name} is shared and allocated inside a region, by every thread"
        if b.strides and len(b.strides) != len(b.shape):
            yield f"{b.name} has {len(b.strides)} strides for {len(b.shape)} axes"


def _swizzled(body: Body) -> Iterator[str]:
    """Such an array is made of whole groups of rows, and neighbours that are moved at once are parts of pieces."""
    for p in body.places:
        s = p.stmt
        if isinstance(s, Alloc) and s.buffer.swizzle:
            b = s.buffer
            whole = all(e.is_const for e in b.shape) and fits(b.dtype, prod([e.attr for e in b.shape]), b.swizzle)
            if not whole or b.space != "shared" or b.align % ALIGN or not b.align:
                yield f"{b.name} is swizzled by {b.swizzle}, and not made of whole groups of such rows"
        for name, index in [*((n.attr, n.args) for n in p.names if n.op == "load"), *([(s.buffer, s.index)] if isinstance(s, Store) else [])]:
            held = p.buffers.get(name)
            if held is None or not held.swizzle:
                continue
            address = poly(held.address(index))
            for loop in (x for x in p.loops() if x.kind == "vector"):
                own, rest = coefficient(address, var(loop.axis))
                lanes = loop.stop.attr if loop.start is ZERO and loop.stop.is_const else 0
                if own and not (own == {(): 1} and lanes in (2, 4, PIECE) and all(n % lanes == 0 for n in rest.values())):
                    yield f"{name} is swizzled, and the lanes of {loop.axis} are not neighbours in one of its pieces"


def _regions(body: Body) -> Iterator[str]:
    for p in body.places:
        if isinstance(p.stmt, Region) and any(isinstance(a, Region) for a in p.around):
            yield "a region inside a region"
        if isinstance(p.stmt, Barrier):
            yield from _barrier(body, p.around)


def _barrier(body: Body, around: tuple[object, ...]) -> Iterator[str]:
    inner = around
    while inner and not (isinstance(inner[0], Region) or (isinstance(inner[0], Loop) and inner[0].kind.startswith("thread."))):
        inner = inner[1:]
    if not inner:
        yield "a barrier outside any region and any threads of a block"
    own = {p.stmt.buffer.name for p in body.places if isinstance(p.stmt, Alloc) and p.stmt.buffer.space != "shared"}
    threads = {a.axis for a in inner if isinstance(a, Loop) and a.kind.startswith("thread.")}
    for a in inner:
        if isinstance(a, Loop) and a.axis in threads:
            continue
        if isinstance(a, Loop) and a.kind not in ("serial", "elastic", "reduce"):
            yield f"a barrier inside the {a.kind} axis {a.axis}"
        place = next((p for p in body.places if p.stmt is a), None)
        if isinstance(a, (If, While, Loop)) and place is not None:
            if any(n.op == "load" and n.attr in own for n in place.names):
                yield "a barrier that not every thread may reach: its condition reads what is a thread's own"
            if any(n.op == "var" and n.attr in threads for n in place.names):
                yield "a barrier that not every thread may reach: its condition depends on the thread"


def _predicates(body: Body) -> Iterator[str]:
    for p in body.places:
        for n in p.names:
            if n.op in ("first", "last") and all(s.axis != n.attr for s in p.loops()):
                yield f"{n!r} outside a loop over {n.attr}"


def _readonly(body: Body) -> Iterator[str]:
    for _, s in body.stores():
        if s.buffer in body.readonly:
            yield f"a store to {s.buffer}, which is only read"


# The rules that hold in any block of statements, in a kernel or in a nest.
_BODY: tuple[tuple[str, str, Callable[[Body], Iterable[str]]], ...] = (
    ("names", "names are declared before use", _names),
    ("unique-names", "no name is declared twice in a kernel, nor like a size", _unique),
    ("index-rank", "a buffer has one index for each axis", _ranks),
    ("dtypes", "loads, variables and stored values have the dtype of what they name", _dtypes),
    ("expressions", "expressions are well typed: conditions bool, positions and bounds i64", _expressions),
    ("loops", "an axis has a known kind and a step other than 0; workshare stands in a region", _loops),
    ("vectors", "a vector axis, or one of a tile, has a constant extent", _vectors),
    ("matrices", "a matrix axis is the outermost of what a thread computes of a product by its warp", _matrices),
    ("allocations", "registers and the stack have constant extents; shared memory is allocated outside the region", _allocations),
    ("swizzled", "a swizzled array is made of whole groups of rows, and lanes are parts of its pieces", _swizzled),
    ("barriers", "a barrier stands in a region, where every thread comes by", _regions),
    ("predicates", "first and last name an enclosing axis", _predicates),
    ("inputs", "nothing is stored to an input", _readonly),
    ("in-place", "what runs at the same time reads an updated buffer at the index it stores", races),
    ("arrivals", "what is on its way into memory that threads share is read by nobody before a barrier has waited for it", arrivals),
    ("accumulation", "a parallel axis accumulates nothing into a place that does not depend on it", accumulations),
)


class Nested(Body):
    """The statements of a nest: user's code, which may use a name again in a block apart."""

    def __init__(self, nest: Nest, sizes: frozenset[str]) -> None:
        buffers = {b.name: b for b in (*nest.operands, *nest.results)}
        super().__init__(nest.name, nest.body, buffers, {}, sizes, frozenset(), False)


def body_findings(body: Body) -> Iterator[str]:
    for name, _, check in _BODY:
        yield from (f"{name}: {found}" for found in check(body))


def _in_every_kernel(check: Callable[[Body], Iterable[str]]) -> Callable[[Subject], Iterator[str]]:
    return lambda subject: (f"{body.title}: {found}" for body in subject.bodies for found in check(body))


def _lists(subject: Subject) -> Iterator[str]:
    module = subject.whole
    order = [p.name for p in module.ports if p.role != "scalar"] + [t.name for t in module.temps]
    for kernel, body in subject.kernels():
        used = {n.attr for p in body.places for n in p.names if n.op == "load"} | {s.buffer for _, s in body.stores()}
        expected = tuple(name for name in order if name in used)
        if kernel.buffers != expected:
            yield f"kernel {kernel.name} lists {', '.join(kernel.buffers) or 'nothing'}; it touches {', '.join(expected) or 'nothing'}"


def _buffers(subject: Subject) -> Iterator[str]:
    module = subject.whole
    yield from (f"two kernels are called {name}" for name in repeated(k.name for k in module.kernels))
    yield from (
        f"{name} is declared twice" for name in repeated([*(p.name for p in module.ports), *(t.name for t in module.temps), *sorted(subject.sizes)])
    )
    for t in module.temps:
        if t.space != "global":
            yield f"temp {t.name} is in the space {t.space}"
        for e in (*t.shape, *t.strides):
            yield from (f"temp {t.name}: {found}" for found in undeclared(e, subject.sizes, 0))


def _order(subject: Subject) -> Iterator[str]:
    """Temps are written before a later kernel reads them; every output is written."""
    temps = {t.name for t in subject.whole.temps}
    written: set[str] = set()
    for kernel, body in subject.kernels():
        stored = {s.buffer for _, s in body.stores()}
        for name in kernel.buffers:
            if name in temps and name not in written | stored:
                yield f"kernel {kernel.name} reads {name}, which nothing has written"
        written |= stored
    for p in subject.whole.ports:
        if p.role == "out" and p.name not in written:
            yield f"no kernel writes {p.name}"


def _scalar_forms(subject: Subject) -> Iterator[str]:
    from ..walks import postorder

    for body in subject.bodies:
        for p in body.places:
            for n in postorder(*p.roots):
                if n.op in VECTOR_FORMS or (n.op == "ins" and n.attr not in INSTRUCTIONS and n.attr not in LANE_BY_LANE):
                    yield f"{body.title}: {n!r} belongs to the program level"


RULES: tuple[Rule, ...] = (
    *header_rules(Module),
    Rule("buffers", "names of kernels, ports, temps and sizes are unique; temps are global", _buffers),
    *(Rule(name, meaning, _in_every_kernel(check)) for name, meaning, check in _BODY),
    Rule("forms", "vector forms, and instructions that only a runtime knows, stand at the program level", _scalar_forms),
    Rule("buffer-lists", "a kernel lists exactly the buffers it touches, ports in their order, then temps", _lists),
    Rule("order", "a temporary is written before it is read, and every output is written", _order),
)
