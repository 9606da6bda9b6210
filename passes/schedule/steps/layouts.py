"""Steps for what the threads of a GPU have of an array and of a sum, each a part of its own: `divide` an axis of the array, take the `partials` of a reduction."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.expr import ZERO, Expr, const, floordiv, load, mod, var
from ....ir.kernel import Alloc, Block, Buffer, Kernel, Let, Loop, Stmt, Store, identity_of, map_block, statements, with_body, written
from ....ir.places import path_of
from ....ir.record import replace
from ....ir.renaming import at_places
from ....ir.simplify import simplify
from ....ir.swizzle import ALIGN, LINE, fits
from ....ir.walks import substitute
from ..affine import constant_extent, inside, stride
from ..tree import Facts, StepError, all_loops, fresh, loads_in, local_buffers, names_taken, nest, reads, rename, replace_at, replace_loop, touched


def divide(kernel: Kernel, facts: Facts, buffer: str, place: int, *extents: int) -> Kernel:
    """An axis of a local array as several, so that positions along it are digits.

        alloc a: f32[M, 64]              alloc a: f32[M, 2, 8, 4]
        … a[i, x·32 + y·4 + z] …    →    … a[i, x, y, z] …             (divide a 1 2 8 4)

    The extent of the axis is the product of the new ones; the array has no gaps.
    """
    path = path_of(kernel, buffer)
    alloc = path[-1] if path else None
    if not isinstance(alloc, Alloc) or place >= len(alloc.buffer.shape):
        raise StepError(f"divide: no local array `{buffer}` with an axis {place}")
    old = alloc.buffer
    whole = old.shape[place]
    if not whole.is_const or whole.attr != prod(extents) or old.strides:
        raise StepError(f"divide: the axis has an extent of {whole}, or gaps behind it")
    new = replace(old, shape=(*old.shape[:place], *map(const, extents), *old.shape[place + 1 :]))
    known = inside(all_loops(kernel), facts.known)

    def digits(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        e, found, rest = index[place], list[Expr](), prod(extents)
        for k, n in enumerate(extents):
            rest //= n
            digit = floordiv(e, const(rest)) if rest > 1 else e
            found.append(simplify(mod(digit, const(n)) if k else digit, known))
        return (*index[:place], *found, *index[place + 1 :])

    body = at_places(kernel.body, {buffer}, lambda _, index: digits(index))
    return kernel.with_body(map_block(body, lambda s: (Alloc(new),) if s is alloc else None))


def gaps(kernel: Kernel, facts: Facts, buffer: str, spare: int) -> Kernel:
    """Leave elements free behind each row of a local array, so that rows begin in different banks of memory.

        alloc a: f32[64, 64]    →    alloc a: f32[64, 64] strides [68, 1]             (gaps a 4)

    The array has two axes or more, of constant extents; all but the first lie one in the other.
    """
    path = path_of(kernel, buffer)
    alloc = path[-1] if path else None
    if not isinstance(alloc, Alloc) or len(alloc.buffer.shape) < 2 or alloc.buffer.strides or not all(e.is_const for e in alloc.buffer.shape):
        raise StepError(f"gaps: no local array `{buffer}` of rows")
    steps = list(alloc.buffer.steps)
    new = replace(alloc.buffer, strides=(steps[0] + spare, *steps[1:]), align=64)
    return kernel.with_body(map_block(kernel.body, lambda s: (Alloc(new),) if s is alloc else None))


def swizzle(kernel: Kernel, facts: Facts, buffer: str, axes: int) -> Kernel:
    """Let the pieces of an array's rows change places (`ir/swizzle.py`), so that threads read rows and columns of it without waiting for one another.

        alloc a: f16[2, 8, 64]    →    alloc a: f16[2, 8, 64] align 1024 swizzle 64             (swizzle a 1)

    A row is what the last `axes` of the array have together: a power of two, of elements of 16 bits that the threads of a block share.  Rows are a multiple of eight, those shorter than a line of 64 of as many lines; the array has no gaps.
    """
    path = path_of(kernel, buffer)
    alloc = path[-1] if path else None
    old = alloc.buffer if isinstance(alloc, Alloc) else None
    if old is None or old.space != "shared" or old.strides or not 0 < axes <= len(old.shape) or not all(e.is_const for e in old.shape):
        raise StepError(f"swizzle: `{buffer}` is no array of constant extents, without gaps, that threads share")
    extents = [e.attr for e in old.shape]
    row = prod(extents[-axes:])
    if row & (row - 1) or not fits(old.dtype, prod(extents), max(row, LINE)):
        raise StepError(f"swizzle: `{buffer}` is not made of whole groups of eight rows of {row} elements of 16 bits")
    new = replace(old, align=ALIGN, swizzle=max(row, LINE))
    return kernel.with_body(map_block(kernel.body, lambda s: (Alloc(new),) if s is alloc else None))


def partials(kernel: Kernel, facts: Facts, *axes: str) -> Kernel:
    """What the iterations of the outer loops of a reduction give, each by itself, in an array; and then all of them together.

                                                  alloc m.parts: f32[2, 4] private
                                                  for a in 0 .. 2 parallel:
        for a in 0 .. 2 reduce:                     for b in 0 .. 4 parallel:
          for b in 0 .. 4 reduce:                     alloc m.own: f32[] register
            for c reduce:               →             m.own[] = -inf
              m[] max= X[a, b, c]                     for c reduce: m.own[] max= X[a, b, c]
                                                      m.parts[a, b] = m.own[]
                                                  for a.b in 0 .. 2 reduce:
                                                    for b.b in 0 .. 4 reduce: m[] max= m.parts[a.b, b.b]

    `axes` are the outermost loops of a nest of reductions, of constant extents, which accumulates into one scalar, and else stores at its own positions alone.  --strict forbids it for
    float sums and products.
    """
    loops = nest(kernel, axes)
    top = loops[0]
    inner = loops[-1].body
    every = [s for x in inner for s in _stores(x)]
    nested = [*loops, *(s for s in statements(inner) if isinstance(s, Loop))]
    stores = [s for s in every if s.combiner or not any(_each_its_own(e, nested) for e in s.index)]
    if any(s.kind != "reduce" or s.start is not ZERO or constant_extent(s) is None for s in loops):
        raise StepError(f"partials: {', '.join(axes)} are no reductions of constant extents from 0")
    local = local_buffers(kernel)
    if len(stores) != 1 or not stores[0].combiner or stores[0].index or stores[0].buffer not in local:
        raise StepError(f"partials: `{top.axis}` does not accumulate into one scalar alone")
    (store,) = stores
    combiner, dtype = store.combiner, local[store.buffer].dtype
    assert combiner is not None
    changed = {s.buffer for s in every}
    if any(n.attr in changed for s in statements(inner) for n in loads_in(*s.expressions())):
        raise StepError(f"partials: `{top.axis}` reads what it stores")
    if facts.strict and dtype.is_float and combiner in ("add", "mul"):
        raise StepError("partials: --strict forbids another order of a float sum")
    taken = names_taken(kernel)
    parts, own = fresh(f"{store.buffer}.parts", taken), fresh(f"{store.buffer}.own", taken)
    body: Block = (
        Alloc(Buffer(own, dtype, (), "register")),
        Store(own, (), identity_of(combiner, dtype)),
        *rename(inner, {store.buffer: own}),
        Store(parts, tuple(var(s.axis) for s in loops), load(own, dtype)),
    )
    again = [fresh(a, taken) for a in axes]
    fold: Block = (Store(store.buffer, (), load(parts, dtype, *map(var, again)), combiner, store.span),)
    for s, name in zip(reversed(loops), reversed(again), strict=True):
        body = (Loop(s.axis, ZERO, s.stop, body, "parallel", span=s.span),)
        fold = (Loop(name, ZERO, s.stop, fold, "reduce", span=s.span),)
    array = Alloc(Buffer(parts, dtype, tuple(s.stop for s in loops), "private"))
    return replace_loop(kernel, top.axis, lambda _: (array, *body, *fold))


def onto(kernel: Kernel, facts: Facts, buffer: str) -> Kernel:
    """Add up what is added to an array in the end in the array itself.

        alloc acc: f32[8] register                  for i in 0 .. 8:
        for i in 0 .. 8:                              a[i] = a[i] * b
          acc[i] = 0                                for p reduce:
        for p reduce:                        →        for j in 0 .. 8:
          for j in 0 .. 8:                              a[j] add= X[p, j]
            acc[j] add= X[p, j]
        for k in 0 .. 8:
          a[k] = a[k] * b + acc[k]

    Where the sums begin, and where they are added, is a nest that does nothing else, along the array's own positions; the array that they are added to is local and touched by nothing
    that stands between.  --strict forbids it for floats: the sum begins with what was there.
    """
    path = path_of(kernel, buffer)
    alloc = path[-1] if path else None
    outer = path[-2] if len(path) > 1 else None
    if not isinstance(alloc, Alloc) or not isinstance(outer, Loop):
        raise StepError(f"onto: no local array `{buffer}` in a loop")
    if facts.strict and alloc.buffer.dtype.is_float:
        raise StepError("onto: --strict forbids another order of a float sum")
    block = outer.body
    using = [k for k, s in enumerate(block) if s is not alloc and buffer in touched((s,))]
    first, last = (block[using[0]], block[using[-1]]) if using else (alloc, alloc)
    start, end = _alone(first), _alone(last)
    if start is None or start.buffer != buffer or start.combiner or start.value is not identity_of("add", alloc.buffer.dtype):
        raise StepError(f"onto: `{buffer}` does not begin as zeros in a nest of its own")
    sums = [s for k in using[1:-1] for s in statements((block[k],)) if isinstance(s, Store) and s.buffer == buffer]
    if any(s.combiner != "add" for s in sums) or any(n.attr == buffer for k in using[1:-1] for n in reads((block[k],))):
        raise StepError(f"onto: `{buffer}` is not added up alone")
    if end is None or end.combiner or end.value.op != "add" or end.value.args[1].op != "load" or end.value.args[1].attr != buffer:
        raise StepError(f"onto: `{buffer}` is not added to an array in a nest of its own")
    before, own = end.value.args
    into, local = end.buffer, local_buffers(kernel)
    between = block[using[0] : using[-1]]
    if into not in local or local[into].dtype is not alloc.buffer.dtype or into in touched(between):
        raise StepError(f"onto: `{into}`, to which `{buffer}` is added, is not local or is touched before")
    if buffer in before.buffers or before.buffers & written(between):
        raise StepError(f"onto: what stands beside `{buffer}` is made only then")
    if {x.axis for x in all_loops((last,))} != {e.attr for e in own.args if e.op == "var"} or len(set(own.args)) != len(own.args):
        raise StepError(f"onto: `{buffer}` is not added position by position")

    def at(s: Store, value: Expr, combiner: str | None) -> Store:
        """Where the element at which a statement stores is added."""
        places = dict(zip(own.args, s.index, strict=True))
        return replace(s, buffer=into, index=tuple(substitute(e, places) for e in end.index), value=substitute(value, places), combiner=combiner)

    def moved(s: Stmt) -> Block | None:
        if s is start:
            return (at(start, before, end.combiner),)
        return (replace(at(s, own, s.combiner), value=s.value),) if isinstance(s, Store) and s.buffer == buffer else None

    rest = tuple(s for s in map_block(block, moved) if s is not alloc and s is not last)
    return kernel.with_body(replace_at(kernel.body, path[:-1], (with_body(outer, rest),)))


def _alone(s: Stmt) -> Store | None:
    """The one store that a nest does; None where it does more."""
    while isinstance(s, Loop) and len(s.body) == 1:
        s = s.body[0]
    return s if isinstance(s, Store) else None


def _each_its_own(e: Expr, loops: Sequence[Loop]) -> bool:
    """Whether an index is another number in each iteration of a nest of constant extents."""
    reach = 0
    for step, count in sorted((abs(stride(e, s.axis) or 0), constant_extent(s) or 0) for s in loops):
        if count < 1 or step <= reach:
            return False
        reach += step * (count - 1)
    return True


def _stores(s: Stmt) -> list[Store]:
    """The stores of what may stand in a reduction: loops, lets and stores."""
    match s:
        case Store():
            return [s]
        case Loop(kind="reduce"):
            return [t for x in s.body for t in _stores(x)]
        case Let():
            return []
        case _:
            raise StepError(f"partials: a {type(s).__name__.lower()} stands in the reduction")
