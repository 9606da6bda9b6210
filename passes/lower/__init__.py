"""lower: kernels → program.  Flat addresses, vectors, threads, the entry; after it nothing is decided.

kernel gemm_0(A, B, C):                     function gemm_0(const f32* A, const f32* B, f32* C, i64 M, i64 N, i64 K):
  for i in 0 .. M parallel:                   for i in 0 .. M step 1 parallel serial_if …:
    for j in 0 .. N vector …          →         …
      C[i, j] = …                               C[i * N + j] = …
"""

from __future__ import annotations

from functools import cache

from ...ir.expr import Expr
from ...ir.kernel import If, Kernel, Module
from ...ir.program import Function, Program
from ...ir.record import replace
from ...ir.simplify import prove
from ...ir.target import Options, Target
from ..programs.alike import alike
from ..simplify_index import known_of
from .entry import Launch, entry
from .function import function
from .names import Names


def launched(kernel: Kernel, module: Module) -> list[tuple[Expr | None, Kernel]]:
    """The parts of a kernel that is an `if` on the sizes, which a GPU runs by blocks and threads of different shapes: the entry decides which is launched."""
    only = kernel.body[0] if len(kernel.body) == 1 else None
    sizes = {s.name for s in module.sizes}
    if not isinstance(only, If) or only.condition.buffers or not only.condition.names <= sizes:
        return [(None, kernel)]
    first = (only.condition, replace(kernel, body=only.body))
    return [first, *launched(replace(kernel, body=only.orelse), module)] if only.orelse else [first]


def lower(module: Module, target: Target, options: Options) -> Program:
    """Every kernel as a function, those that are alike as one, and the entry that checks, allocates and calls.

    Raises Unsupported where a local buffer has no place on the target, CompilerBug for a kernel that breaks the grammar.
    """
    # what the bounds of a size say is not asked twice
    module = replace(module, requires=tuple(r for r in module.requires if not prove(r, module.size_info())))
    names = Names([s.name for s in (*module.sizes, *module.ports, *module.temps)])
    known = cache(lambda: known_of(module.sizes, module.requires))  # few kernels ask, and preconditions take long to simplify
    made: list[tuple[Kernel, Function]] = []

    def launch(kernel: Kernel) -> Launch:
        for earlier, f in made:
            renamed = alike(earlier, kernel, module, target.gpu)
            if renamed is not None:
                return Launch(f, renamed)
        made.append((kernel, function(kernel, names.fresh(kernel.name), module, target, known)))
        return Launch(made[-1][1], {})

    choices = [[(c, launch(part)) for c, part in (launched(kernel, module) if target.gpu else [(None, kernel)])] for kernel in module.kernels]
    block, workspace = entry(module, choices)
    return Program(
        name=module.name,
        sizes=module.sizes,
        ports=module.ports,
        functions=tuple(f for _, f in made),
        entry=block,
        derived=module.derived,
        requires=module.requires,
        documentation=module.documentation,
        source=module.source,
        target=target.describe,
        workspace=workspace,
        notes=tuple(note for kernel in module.kernels for note in kernel.notes),
    )
