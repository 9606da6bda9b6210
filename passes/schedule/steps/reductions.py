"""Steps on reductions: partial sums that live in memory between blocks of the reduction axis, and accumulators one a lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from ....ir.dtypes import DType
from ....ir.expr import ONE, ZERO, Expr, call, ceildiv, const, first, last, load, maximum, minimum, var, where
from ....ir.kernel import (
    Alloc,
    Block,
    Buffer,
    If,
    Kernel,
    Let,
    Loop,
    Stmt,
    Store,
    identity_of,
    map_block,
    nested,
    statements,
    substitute_block,
    with_body,
    written,
)
from ....ir.places import block_of
from ....ir.primops import COMBINERS
from ....ir.record import replace
from ....ir.renaming import rename_buffers
from ....ir.simplify import prove_equal
from ..affine import at_least, constant_extent, minus, stride, upper
from ..tree import (
    Facts,
    StepError,
    around,
    copy,
    find,
    fresh,
    loads_in,
    local_buffers,
    names_taken,
    reads,
    replace_at,
    replace_in,
    replace_loop,
    touched,
)


def accumulate(kernel: Kernel, facts: Facts, axis: str, into: str = "", outside: str = "", space: str = "shared") -> Kernel:
    """Move a block loop of a reduction outside the parallel loops; between blocks the partial results live in memory.

        for i parallel:                                     for p.0 in 0 .. max(1, ceil(K / 512)):
          alloc acc                                           for i parallel:
          acc[] = 0                                             alloc acc
          for p.0 in 0 .. ceil(K / 512) reduce:                 acc[] = 0
            for p.1 in 0 .. min(512, K - 512·p.0) reduce:       for p.1 in 0 .. min(512, K - 512·p.0) reduce:
              acc[] add= A[i, 512·p.0 + p.1]          →           acc[] add= A[i, 512·p.0 + p.1]
          C[i] = f(acc[])                                       if last(p.0):
                                                                  C[i] = f(where(first(p.0), acc[], C[i] + acc[]))
                                                                else:
                                                                  C[i] = where(first(p.0), acc[], C[i] + acc[])

    `into` names the output that holds the partial results: the only thing stored after the loop, once, with the accumulator's dtype, and read nowhere.  Where f
    is nothing the two stores are one.  Where the epilogue is `C[i] = C[i] + acc[]` (the reduction's own operator), each block does just that.  Both change the
    order of a sum: under --strict a float sum takes up where the block before left it, as it does without `into`, and `C[i] = C[i] + acc[]` is refused.

        for i parallel:              alloc acc.partial: f32[M] shared
          …                →         for p.0 in 0 .. max(1, ceil(K / 512)):
                                       for i parallel:
                                         alloc acc
                                         if first(p.0):
                                           acc[] = 0
                                         else:
                                           acc[] = acc.partial[i]
                                         …
                                         if last(p.0):
                                           C[i] = f(acc[])
                                         else:
                                           acc.partial[i] = acc[]

        for r parallel:                               for r.b parallel:
          alloc acc                                     A[r.b] = A[r.b] * b[r.b]
          acc[] = 0                                   for p.0 in 0 .. ceil(K / 32):
          for p.0 in 0 .. ceil(K / 32) reduce:          for r parallel:
            …                                   →         alloc acc
          A[r] = A[r] * b[r] + acc[]                      acc[] = A[r]
                                                          …
                                                          A[r] = acc[]

    Where `into` is local, it is what the epilogue adds the sum to, and nothing else in these loops touches it: then it holds the partial results from the first block on, and before it what the sum is added
    to.  --strict refuses that too, for the sum begins with it.

    Without `into`, a shared buffer (or a private one, by `space`, where the loops are inside of what threads share) over the parallel axes holds the partial results, for any epilogue;
    over padded tiles it needs no guards.  `outside` is the
    parallel loop to move across (default: the outermost); the loops from there to `axis` are parallel and hold nothing else, and the end of `axis` depends on none of them.
    """
    if space not in ("shared", "private"):
        raise StepError(f"accumulate: no space `{space}` for partial results; there are shared, private")
    path = around(kernel, axis)
    block_loop = path[-1]
    assert isinstance(block_loop, Loop)
    if block_loop.kind != "reduce" or block_loop.start is not ZERO or block_loop.step is not ONE:
        raise StepError(f"accumulate: `{axis}` is no reduction loop from 0 in steps of 1")
    loops = _parallel_around(path, outside)
    moving = sorted(block_loop.stop.names & {x.axis for x in loops})
    if moving:
        raise StepError(f"accumulate: the end of `{axis}` depends on {', '.join(moving)}, which it would leave")
    inner = loops[-1].body
    place = next(k for k, s in enumerate(inner) if s is block_loop)
    accumulators = sorted(written((block_loop,)))
    if len(accumulators) != 1:
        raise StepError(f"accumulate: `{axis}` accumulates into {', '.join(accumulators)}; one is needed")
    acc = local_buffers(kernel).get(accumulators[0])
    if acc is None or acc.shape or not any(isinstance(s, Alloc) and s.buffer == acc for s in inner):
        raise StepError(f"accumulate: `{accumulators[0]}` is no scalar allocated beside `{axis}`")
    before, after = inner[:place], inner[place + 1 :]
    for s in before:
        if not (isinstance(s, Alloc) or (isinstance(s, Store) and s.buffer == acc.name)):
            raise StepError(f"accumulate: a {type(s).__name__.lower()} before `{axis}` would be repeated for every block")
    for s in statements((block_loop,)):
        if isinstance(s, Store) and not s.combiner:
            raise StepError(f"accumulate: `{s.buffer}` is stored, not accumulated")
    value = load(acc.name, acc.dtype)
    allocs = tuple(s for s in before if isinstance(s, Alloc))
    start = tuple(s for s in before if not isinstance(s, Alloc))
    head: Block = ()
    middle: Block
    if into and into not in facts.buffers:
        onto, middle = _onto(into, block_loop, value, start, after, facts)
        head = copy(nested(loops, onto), names_taken(kernel)) if onto else ()
        return _moved(kernel, block_loop, loops, head, block_loop.stop, (*allocs, *middle))
    trips, body = _at_least_once(block_loop, facts)
    if into:
        target = facts.buffers.get(into)
        store = _only_store(kernel, into, after)
        if target is None or target.dtype is not acc.dtype:
            raise StepError(f"accumulate: `{into}` cannot hold {acc.dtype} partial results")
        index = store.index
        if any(n.attr == into for n in reads(kernel.body)) or store.combiner:
            _require_own_operator(store, block_loop, value, facts)
            middle = (*start, *body, *after)
        elif facts.strict and not _in_any_order(block_loop, acc.dtype):
            middle = _first_last(axis, into, index, value, start, body, after, acc)
        else:
            so_far = where(first(axis), value, call(COMBINERS[_combiner(block_loop)].op, load(into, acc.dtype, *index), value))
            done = substitute_block(after, {value: so_far})
            middle = (*start, *body, *_at_last(axis, done, Store(into, index, so_far)))
    else:
        name = fresh(f"{acc.name}.partial", names_taken(kernel))
        index = tuple(var(x.axis) for x in loops)
        head = (Alloc(Buffer(name, acc.dtype, tuple(_extent_outside(x, loops, facts) for x in loops), space, align=64)),)
        middle = _first_last(axis, name, index, value, start, body, after, acc)
    return _moved(kernel, block_loop, loops, head, trips, (*allocs, *middle))


def _moved(kernel: Kernel, block_loop: Loop, loops: Sequence[Loop], head: Block, trips: Expr, middle: Block) -> Kernel:
    """The block loop around these loops and what stands in them now."""
    return kernel.with_body(replace_in(kernel.body, loops[0], (*head, replace(block_loop, stop=trips, body=nested(loops, middle), kind="serial"))))


def _parallel_around(path: tuple[Stmt, ...], outside: str) -> list[Loop]:
    """The parallel loops between `outside` and the block loop, outermost first; each holds only the next."""
    loops: list[Loop] = []
    for s in reversed(path[:-1]):
        if not isinstance(s, Loop) or s.kind != "parallel" or (loops and len(s.body) != 1):
            break
        loops.insert(0, s)
        if s.axis == outside:
            break
    if not loops or (outside and loops[0].axis != outside):
        raise StepError(f"accumulate: no parallel loop {'`' + outside + '` ' if outside else ''}to move across")
    return loops


def _at_least_once(loop: Loop, facts: Facts) -> tuple[Expr, Block]:
    """Trips of the block loop, at least one so that the epilogue runs for an empty reduction too; its body must then do nothing."""
    if at_least(loop.stop, 1, facts.known):
        return loop.stop, loop.body
    inner = loop.body[0]
    if len(loop.body) == 1 and isinstance(inner, Loop) and inner.stop.op == "min" and inner.stop.args[0].is_const:
        factor = inner.stop.args[0].attr
        length = minus(inner.stop.args[1], var(loop.axis) * -factor)
        if prove_equal(loop.stop, ceildiv(length, factor), facts.known) and loop.axis not in length.names:
            return maximum(ONE, loop.stop), loop.body
    raise StepError(f"accumulate: `{loop.axis}` may run no block at all; split the reduction with tail=guard")


def _only_store(kernel: Kernel, buffer: str, after: Block) -> Store:
    stores = [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer == buffer]
    if len(stores) != 1 or not any(s is stores[0] for s in after):
        raise StepError(f"accumulate: `{buffer}` is not stored exactly once, unconditionally, after the reduction")
    return stores[0]


def _combiner(loop: Loop) -> str:
    """The one combiner that the loop accumulates with."""
    combiners = sorted({s.combiner for s in statements((loop,)) if isinstance(s, Store)})
    if len(combiners) != 1:
        raise StepError(f"accumulate: `{loop.axis}` accumulates by {', '.join(combiners)}; one combiner is needed")
    return combiners[0]


def _in_any_order(loop: Loop, dtype: DType) -> bool:
    """Whether the order of what is accumulated makes no difference."""
    return not dtype.is_float or _combiner(loop) not in ("add", "mul")


def _require_own_operator(store: Store, loop: Loop, value: Expr, facts: Facts) -> None:
    """The store is `C[…] = C[…] ∘ acc[]` with the reduction's operator ∘, or the same written as an accumulation."""
    combiner = _combiner(loop)
    own = load(store.buffer, store.value.dtype, *store.index)
    if store.combiner:
        plain = store.combiner == combiner and store.value is value
    else:
        e = store.value
        plain = e.op == COMBINERS[combiner].op and (e.args == (own, value) or e.args == (value, own))
    if not plain:
        raise StepError(f"accumulate: `{store.buffer}` is read by an epilogue that is more than `{combiner}=`; leave out `into`")
    if facts.strict and not _in_any_order(loop, value.dtype):
        raise StepError("accumulate: adding block by block changes the order of the sum, and --strict forbids it")


def _extent_outside(loop: Loop, loops: list[Loop], facts: Facts) -> Expr:
    """The extent of one of the loops as it is known before all of them."""
    bound = upper(loop.stop, facts.known) if constant_extent(loop) is None else None
    if loop.start is not ZERO or loop.step is not ONE or (bound is None and loop.stop.names & {x.axis for x in loops}):
        raise StepError(f"accumulate: the partial results of `{loop.axis}` have no fixed extent")
    return loop.stop if bound is None else const(bound)


def _first_last(axis: str, into: str, index: tuple[Expr, ...], value: Expr, start: Block, body: Block, after: Block, acc: Buffer) -> Block:
    resume = Store(acc.name, (), load(into, acc.dtype, *index))
    return (If(first(axis), start, (resume,)), *body, *_at_last(axis, after, Store(into, index, value)))


def _onto(into: str, block_loop: Loop, value: Expr, start: Block, after: Block, facts: Facts) -> tuple[Block, Block]:
    """The sum begins with what it is added to in the end: what stores that, where it is not there already, and a block that goes on from there."""
    combiner = _combiner(block_loop)
    s = after[0] if len(after) == 1 else None
    begin = start[0] if len(start) == 1 else None
    if not isinstance(s, Store) or s.buffer != into or s.combiner or s.value.op != COMBINERS[combiner].op or s.value.args.count(value) != 1:
        raise StepError(f"accumulate: the epilogue does not add all of the sum to what is in `{into}`")
    onto = next(e for e in s.value.args if e is not value)
    own = load(into, value.dtype, *s.index)
    if onto.buffers & value.buffers or any(n is not own for n in loads_in(onto) if n.attr == into) or own not in loads_in(onto):
        raise StepError(f"accumulate: the epilogue does not add the sum to what is made of one element of `{into}`")
    if into in touched((*start, block_loop)) or not isinstance(begin, Store) or begin.value is not identity_of(combiner, value.dtype):
        raise StepError(f"accumulate: `{into}` is touched by more than the epilogue, or the sum begins with something")
    if facts.strict and not _in_any_order(block_loop, value.dtype):
        raise StepError("accumulate: to begin the sum with what it is added to changes its order, and --strict forbids it")
    return () if onto is own else (replace(s, value=onto),), (replace(begin, value=own), *block_loop.body, replace(s, value=value))


def _at_last(axis: str, finish: Block, keep: Store) -> Block:
    """`finish` after the last block, `keep` after the others."""
    only = finish[0] if len(finish) == 1 else None
    return finish if isinstance(only, Store) and replace(only, span=keep.span) == keep else (If(last(axis), finish, (keep,)),)


def rfactor(kernel: Kernel, facts: Facts, axis: str, skip: int = 0, into: str = "") -> Kernel:
    """Accumulate each iteration of an inner loop by itself, and combine the results once at the end: then the loop is parallel (and can be a vector).

                                                    alloc m.lanes: f32[16] register
                                                    for j.1.b in 0 .. 16 parallel:
        for j.0 reduce:                               m.lanes[j.1.b] = -inf
          for j.1 in 0 .. 16 reduce:                for j.0 reduce:
            m[] max= X[j.0, j.1]             →        for j.1 in 0 .. 16 parallel:
                                                        m.lanes[j.1] max= X[j.0, j.1]
                                                    for j.1.c in 0 .. 16 reduce:
                                                      m[] max= m.lanes[j.1.c]

    The loop is a reduction of constant extent that holds only lets, accumulations into places that do not depend on it, and what it stores or accumulates, but does not read, at its own position; reduction
    loops directly around it are taken along.  With skip=1 all this stands behind an `if` on their having an iteration: what is often an empty tail costs no fold then.  --strict forbids it for float sums and products.

    With `into`, a loop that combines such results right before it, it goes on from these, and all are combined once: a tail and what it is the tail of.

                                                      alloc m.lanes.b: f32[8] register
                                                      for j.t.1.b in 0 .. 8 parallel:
        for j.1.c in 0 .. 16 reduce:                    m.lanes.b[j.t.1.b] = max(m.lanes[j.t.1.b], m.lanes[j.t.1.b + 8])
          m[] max= m.lanes[j.1.c]                     for j.t.0 reduce:
        for j.t.0 reduce:                      →        for j.t.1 in 0 .. 8 parallel:
          for j.t.1 in 0 .. 8 reduce:                     m.lanes.b[j.t.1] max= X[j.t.0, j.t.1]
            m[] max= X[j.t.0, j.t.1]                  for j.t.1.c in 0 .. 8 reduce:
                                                        m[] max= m.lanes.b[j.t.1.c]
    """
    path = around(kernel, axis)
    loop = path[-1]
    assert isinstance(loop, Loop)
    if loop.kind != "reduce" or loop.start is not ZERO or constant_extent(loop) is None:
        raise StepError(f"rfactor: `{axis}` is no reduction of constant extent from 0")
    chain: tuple[Loop, ...]
    top, chain = loop, (loop,)
    for s in reversed(path[:-1]):
        if not isinstance(s, Loop) or s.kind != "reduce" or len(s.body) != 1:
            break
        top, chain = s, (s, *chain)
    inner_axes = {s.axis for s in statements((top,)) if isinstance(s, Loop)}
    taken = names_taken(kernel)
    lanes: dict[tuple[str, tuple[Expr, ...]], tuple[Buffer, str]] = {}
    changed = written(loop.body)
    for s in loop.body:
        if isinstance(s, If) and not s.orelse and all(isinstance(t, Store) and _at_own_place(t, axis) for t in s.body):
            continue
        if not isinstance(s, (Let, Store)):
            raise StepError(f"rfactor: `{axis}` holds a {type(s).__name__.lower()}")
        if any(n.attr in changed for n in loads_in(*s.expressions())):
            raise StepError(f"rfactor: `{axis}` reads what it accumulates")
        if isinstance(s, Store):
            if _at_own_place(s, axis):
                continue
            if not s.combiner or any(e.names & inner_axes for e in s.index):
                raise StepError(f"rfactor: `{s.buffer}` is not accumulated into one place")
            if facts.strict and s.value.dtype.is_float and s.combiner in ("add", "mul"):
                raise StepError("rfactor: lane by lane changes the order of the sum, and --strict forbids it")
            if (s.buffer, s.index) in lanes:
                raise StepError(f"rfactor: `{s.buffer}` is accumulated twice")
            lanes[s.buffer, s.index] = (Buffer(fresh(f"{s.buffer}.lanes", taken), s.value.dtype, (loop.stop,), "register"), s.combiner)

    def each(s: Stmt) -> Block | None:
        if isinstance(s, Store) and (s.buffer, s.index) in lanes:
            return (replace(s, buffer=lanes[s.buffer, s.index][0].name, index=(var(axis),)),)
        return None

    new_loop = replace(loop, body=map_block(loop.body, each), kind="parallel")
    start, finish = fresh(axis, taken), fresh(axis, taken)
    head = tuple(Alloc(b) for b, _ in lanes.values())
    from_ = _combined(kernel, find(kernel, into), lanes, var(start)) if into else {b.name: identity_of(c, b.dtype) for b, c in lanes.values()}
    begin = Loop(start, ZERO, loop.stop, tuple(Store(name, (var(start),), value) for name, value in from_.items()), "parallel")
    fold = tuple(Store(name, at, load(b.name, b.dtype, var(finish)), c) for (name, at), (b, c) in lanes.items())
    end = Loop(finish, ZERO, loop.stop, fold, "reduce")
    main = replace_at((top,), chain, (new_loop,))
    new: Block = (*head, begin, *main, end)
    if into:
        return _in_place_of(kernel, find(kernel, into), top, new)
    return replace_loop(kernel, top.axis, lambda _: (If(top.start.lt(top.stop), new),) if skip else new)


def _in_place_of(kernel: Kernel, first: Loop, second: Loop, new: Block) -> Kernel:
    """The kernel with these statements for two loops, of which the second stands right behind the first."""
    path = around(kernel, first.axis)
    outer, block = path[:-1], block_of(kernel, path)
    place = next(k for k, s in enumerate(block) if s is first)
    if len(block) == place + 1 or block[place + 1] is not second:
        raise StepError(f"rfactor: `{second.axis}` does not stand right behind `{first.axis}`")
    if outer and isinstance(outer[-1], Loop):
        return replace_loop(kernel, outer[-1].axis, lambda x: (with_body(x, (*block[:place], *new, *block[place + 2 :])),))
    return kernel.with_body(replace_in(replace_in(kernel.body, second, ()), first, new))


def _combined(kernel: Kernel, fold: Loop, lanes: Mapping[tuple[str, tuple[Expr, ...]], tuple[Buffer, str]], lane: Expr) -> dict[str, Expr]:
    """What each of these lanes goes on from: the results that a loop combines for the same place, as many of them as fall to one lane."""
    found: dict[str, Expr] = {}
    local, length = local_buffers(kernel), constant_extent(fold)
    for s in fold.body:
        buffer, combiner = lanes.get((s.buffer, s.index), (None, "")) if isinstance(s, Store) else (None, "")
        if buffer is None or not isinstance(s, Store) or s.combiner != combiner or s.value.op != "load" or s.value.args != (var(fold.axis),):
            raise StepError(f"rfactor: `{fold.axis}` does more than combine what goes on here")
        count = buffer.shape[0].attr
        if length is None or length % count or local[s.value.attr].space != "register":
            raise StepError(f"rfactor: `{fold.axis}` combines no multiple of {count} results in registers")
        parts = [load(s.value.attr, s.value.dtype, lane + k) for k in range(0, length, count)]
        while len(parts) > 1:
            parts = [a if b is None else call(COMBINERS[combiner].op, a, b) for a, b in zip_longest(parts[::2], parts[1::2])]
        found[buffer.name] = parts[0]
    if len(found) < len(lanes):
        raise StepError(f"rfactor: `{fold.axis}` combines less than what goes on here")
    return found


def _at_own_place(s: Store, axis: str) -> bool:
    """Whether each iteration stores at a place of its own."""
    return any(stride(e, axis) for e in s.index)


def split_reduction(kernel: Kernel, facts: Facts, axis: str, chunks: int, least: int = 1) -> Kernel:
    """Reduce pieces of an axis in parallel, and combine their results in order.

                                            alloc acc.parts: f32[64] shared
                                            for p.0 in 0 .. ceil(N / size) parallel:
                                              alloc acc.part: f32[] register
                                              acc.part[] = 0
        for p in 0 .. N reduce:       →       for p.1 in 0 .. min(size, N - size·p.0) reduce:
          acc[] add= X[p]                       acc.part[] add= X[size·p.0 + p.1]
                                              acc.parts[p.0] = acc.part[]
                                            for p.2 in 0 .. ceil(N / size) reduce:
                                              acc[] add= acc.parts[p.2]

    size = least · ceil(N / (chunks · least)): at most `chunks` pieces, of a multiple of `least` iterations each, whatever the number of threads.  The loop is a reduction
    from 0, inside of serial loops alone; it accumulates into scalars that it does not read.  --strict forbids it for float sums and products.
    """
    path = around(kernel, axis)
    loop = path[-1]
    assert isinstance(loop, Loop)
    if loop.kind != "reduce" or loop.start is not ZERO or loop.step is not ONE:
        raise StepError(f"split_reduction: `{axis}` is no reduction loop from 0 in steps of 1")
    if any(isinstance(s, Loop) and s.kind != "serial" for s in path[:-1]):
        raise StepError(f"split_reduction: `{axis}` is inside a loop that is not serial")
    if chunks < 1 or least < 1:
        raise StepError(f"split_reduction: {chunks} chunks of a multiple of {least}")
    local = local_buffers(kernel)
    inside_names = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)}
    combiners: dict[str, str] = {}
    for s in statements(loop.body):
        if not isinstance(s, Store) or s.buffer in inside_names:
            continue
        buffer = local.get(s.buffer)
        if not s.combiner or buffer is None or buffer.shape or combiners.setdefault(s.buffer, s.combiner) != s.combiner:
            raise StepError(f"split_reduction: `{s.buffer}` is no scalar that `{axis}` accumulates by one operator")
        if facts.strict and buffer.dtype.is_float and s.combiner in ("add", "mul"):
            raise StepError("split_reduction: piece by piece changes the order of the sum, and --strict forbids it")
    if any(n.attr in combiners for n in reads(loop.body)):
        raise StepError(f"split_reduction: `{axis}` reads what it accumulates")
    taken = names_taken(kernel)
    outer, inner, last_axis = (fresh(f"{axis}.{k}", taken) for k in range(3))
    size = ceildiv(loop.stop, chunks * least) * least
    count = minimum(ceildiv(loop.stop, maximum(ONE, size)), chunks)  # which it is anyway
    body = substitute_block(loop.body, {var(axis): var(outer) * size + var(inner)})
    head: list[Stmt] = []
    begin: list[Stmt] = []
    end: list[Stmt] = []
    fold: list[Stmt] = []
    renamed: dict[str, str] = {}
    for name, combiner in combiners.items():
        dtype = local[name].dtype
        part, parts = fresh(f"{name}.part", taken), fresh(f"{name}.parts", taken)
        renamed[name] = part
        head.append(Alloc(Buffer(parts, dtype, (const(chunks),), "shared", align=64)))
        begin += [Alloc(Buffer(part, dtype, (), "register")), Store(part, (), identity_of(combiner, dtype))]
        end.append(Store(parts, (var(outer),), load(part, dtype)))
        fold.append(Store(name, (), load(parts, dtype, var(last_axis)), combiner))

    pieces = Loop(inner, ZERO, minimum(size, loop.stop - var(outer) * size), rename_buffers(body, renamed), "reduce")
    new = (*head, Loop(outer, ZERO, count, (*begin, pieces, *end), "parallel"), Loop(last_axis, ZERO, count, tuple(fold), "reduce"))
    return replace_loop(kernel, axis, lambda _: new)
