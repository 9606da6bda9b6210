"""graph → graph: a `contiguous` node at each tensor that is to be made real; what has none is computed inside the kernels of its users.

Level 0 makes every operator real (`level_zero.py`).  From level 1 the users decide.  The graph is walked from the outputs down; when a node is reached, it is known where its value would be computed if
it were inlined: its *uses*, each in the kernel of a real node (the root), at an index, inside some loops.

    pointwise    real where evaluating it at all its uses costs more than evaluating it once, writing it and reading it again (`costs.py`):
                 gelu(x @ w1) before @ w2 is used once for each column of w2;  exp(x - m) of a softmax is used twice and stays;
                 weights of 8 bits times their scales, and windows of an image, are made where the contraction that they are for packs or reads them
    reduction    inlined where its uses in one kernel are inside no more loops than it has points, so that it is computed once: the epilogue of a matmul,
                 the statistics of a row (softmax, layer norm); real where it would be computed again (a chain of matmuls), under a mask or a
                 gather, by several kernels (but scores that are read in the tiles of cascades alone), outside of all parallel loops, or (a contraction, which wants tiles) inside another reduction or beside another contraction
    cascade      inlined, all its results together, on the same conditions; its states are always computed inside of it, and what they read too unless somebody else reads it;
                 several real nodes that use it each at its own row are made side by side in one kernel
    the others   `scan`, `scatter`, `update`, `nest` and outputs are real by themselves; inputs, constants and iotas never need to be

A node with more than MAX_USES different uses is real: a stencil of a stencil of a stencil must not grow without bound.
"""

from __future__ import annotations

from ..ir.graph import Graph, Node, contiguous_node, identity, with_operands
from ..ir.target import Options, Target
from .nests.level_zero import every_operator, without_cascades
from .nests.uses import Planner


def fuse(ir: Graph, target: Target, options: Options) -> Graph:
    if options.level == 0:
        ir = without_cascades(ir)
    real = every_operator(ir) if options.level == 0 else _planned(ir, target)
    outputs = {n for _, n in ir.outputs}
    done: dict[Node, Node] = {}
    stored: dict[Node, Node] = {}  # what the users of a node read
    for node in ir.nodes():
        stored[node] = done[node] = with_operands(node, stored)
        if node in real and node not in outputs:
            stored[node] = contiguous_node(identity(done[node]), node.shape, node.span)
    return ir.with_outputs(tuple(done[n] for _, n in ir.outputs))


def _planned(graph: Graph, target: Target) -> set[Node]:
    """What is made real.  Statistics of a row, or another contraction, that would stand beside a contraction in one kernel are made real after all: a contraction wants to be
    alone with its tiles."""
    apart: frozenset[Node] = frozenset()
    while True:
        planner = Planner(graph, apart, target)
        real = planner.real()
        wanted = frozenset((*planner.beside_contractions(), *planner.stored_planes(real)))
        beside = wanted - real - planner.outputs - apart  # an output is real: what it reduces may well stay in its kernel
        if not beside:
            return real
        apart |= beside
