"""The step that turns a serial skeleton with parallel loops into one team of threads: `region`."""

from __future__ import annotations

from ....ir.kernel import Alloc, Barrier, Block, If, Kernel, Let, Loop, Region, Stmt, Store, statements, with_blocks, with_body
from ....ir.record import replace
from ....ir.statement import same
from ..tree import Facts, StepError, all_loops, around, find, loads_in


def region(kernel: Kernel, facts: Facts, axis: str = "", queue: str = "") -> Kernel:
    """Start the threads once, around everything (or around the loop over `axis`), and divide the outermost parallel loops among them.

        for p.0:                                  alloc B.packed … shared
          alloc B.packed … shared                 region:
          for j parallel:                           alloc A.packed … private
            B.packed[…] = …                         for p.0:
          for i parallel:                   →         for j workshare:
            alloc A.packed … private                    B.packed[…] = …
            …                                         barrier
                                                      for i workshare:
                                                        …
                                                      barrier

    Each outermost parallel loop becomes a `workshare` loop with a barrier after it, so what it wrote is seen by all; parallel loops inside it are serial.  `shared`
    buffers are allocated before the region, `private` ones (of a parallel loop's body) once a thread at its head: their extents depend on sizes alone.  Outside the parallel loops there are
    only serial loops, conditions on sizes and loop variables, lets and allocations, which every thread repeats.

    With `queue`, each iteration of that loop is for the next thread that is free: cores that share their execution units or their power with others, or are of two kinds, do not take as long for as much.
    Which thread runs an iteration changes no result.
    """
    if any(isinstance(s, Region) for s in (around(kernel, axis) if axis else statements(kernel.body))):
        raise StepError("region: the kernel has one already")
    loops = all_loops(kernel.body)
    if not any(x.kind == "parallel" for x in loops):
        raise StepError("region: no loop is parallel")
    if queue and find(kernel, queue).kind != "parallel":
        raise StepError(f"region: `{queue}` is not parallel")
    shared: list[Stmt] = []
    private: list[Stmt] = []

    def hoisted(s: Alloc) -> bool:
        if s.buffer.space not in ("shared", "private"):
            return False
        inner = {n for e in s.buffer.shape for n in e.names} - facts.sizes.keys()
        if inner or any(e.buffers for e in s.buffer.shape):
            raise StepError(f"region: the extents of `{s.buffer.name}` depend on {', '.join(sorted(inner)) or 'data'}")
        (shared if s.buffer.space == "shared" else private).append(s)
        return True

    def work(block: Block) -> Block:
        result: list[Stmt] = []
        for s in block:
            if isinstance(s, Alloc):
                if s.buffer.space == "shared":
                    raise StepError(f"region: `{s.buffer.name}` is shared but lives inside one thread's work")
                if hoisted(s):
                    continue
            s = with_blocks(s, work)
            result.append(replace(s, kind="serial") if isinstance(s, Loop) and s.kind == "parallel" else s)
        return block if same(result, block) else tuple(result)

    def skeleton(block: Block) -> Block:
        result: list[Stmt] = []
        for s in block:
            if isinstance(s, Loop) and s.kind == "parallel":
                result += [replace(s, kind="queue" if s.axis == queue else "workshare", body=work(s.body)), Barrier()]
            elif isinstance(s, Loop) and s.kind == "serial":
                result.append(with_body(s, skeleton(s.body)))
            elif isinstance(s, If):
                if loads_in(s.condition):
                    raise StepError("region: a condition outside the parallel loops reads memory")
                result.append(If(s.condition, skeleton(s.body), skeleton(s.orelse)))
            elif isinstance(s, Let):
                result.append(s)
            elif isinstance(s, Alloc) and s.buffer.space == "private":
                raise StepError(f"region: `{s.buffer.name}` is private but filled by all threads together; it must be shared")
            elif isinstance(s, Alloc) and hoisted(s):
                continue
            elif isinstance(s, Store):
                raise StepError(f"region: `{s.buffer}` is stored outside the parallel loops")
            else:
                raise StepError(f"region: a {type(s).__name__.lower()} stands outside the parallel loops")
        return tuple(result)

    def wrapped(block: Block) -> Block:
        body = skeleton(block)
        if body and isinstance(body[-1], Barrier):
            body = body[:-1]  # the end of the region is one
        return (*shared, Region((*private, *body)))

    if not axis:
        return kernel.with_body(wrapped(kernel.body))

    def walk(block: Block) -> Block:
        result: list[Stmt] = []
        for s in block:
            if isinstance(s, Loop) and s.axis == axis:
                result += wrapped((s,))
            else:
                result.append(with_blocks(s, walk))
        return tuple(result)

    return kernel.with_body(walk(kernel.body))
