"""Products of several factors in the order that takes the fewest operations: how many these are, that both orders mean the same, and that nothing is done for the order that is not taken."""

from __future__ import annotations

from math import prod

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.evaluate import evaluate
from luminal.ir.graph import Graph, Node
from luminal.ir.target import Options
from luminal.ir.verify import verify
from luminal.passes.fuse import fuse
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from luminal.passes.reassociate import reassociate
from luminal.passes.simplify import simplify
from running import TARGET, agree, composite, draw, meaning, outputs

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 5
OPTIONS = Options(level=2)
ABC = "A{f32}[I J] B{f32}[J K]"
QKV = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
SCORES = '(einsum "hid,hjd->hij" Q K)'

# name -> (composite, sizes and the products that the least order takes of them)
FORMS = {
    "a matrix by a vector, last": (f"(({ABC} c{{f32}}[K]) -> (O{{f32}}[I])) (return (matmul (matmul A B) c))", {(9, 8, 7): 9 * 8 + 8 * 7}),
    "three matrices": (
        f'(({ABC} C{{f32}}[K L]) -> (O{{f32}}[I L])) (return (einsum "ij,jk,kl->il" A B C))',
        {(20, 2, 20, 2): 2 * 20 * 2 + 20 * 2 * 2, (2, 20, 2, 20): 2 * 20 * 2 + 2 * 2 * 20, (3, 3, 3, 3): 54, (0, 4, 9, 4): 0},
    ),
    "all at once, as loops": (
        f"(({ABC} C{{f32}}[K L]) -> (O{{f32}}[I L])) (dotimes (i I) (dotimes (l L) (dotimes (j J) (dotimes (k K) (incf (aref O i l) (* (aref A i j) (aref B j k) (aref C k l)))))))",
        {(20, 2, 20, 2): 160, (2, 20, 2, 20): 160},
    ),
    "the sum of a product": (f"(({ABC}) -> (O{{f32}}[K])) (return (sum (matmul A B) :axis 0))", {(5, 6, 7): 5 * 6 + 6 * 7}),
    "the sum of all of it": (f"(({ABC}) -> (O{{f32}}[])) (return (sum (matmul A B)))", {(5, 6, 7): 5 * 6 + 6 * 7 + 6}),
    "four matrices": (
        f"(({ABC} C{{f32}}[K L] D{{f32}}[L]) -> (O{{f32}}[I])) (return (matmul (matmul (matmul A B) C) D))", {(6, 5, 4, 3): 4 * 3 + 5 * 4 + 6 * 5}
    ),
    "scores as they are": (
        f'(({QKV}) -> (O{{f32}}[H N E])) (return (einsum "hij,hje->hie" (* 0.5 {SCORES}) V))',
        {(2, 9, 2, 9, 3): 2 * (9 * 2 * 3 + 9 * 2 * 3), (2, 2, 9, 3, 9): 2 * (2 * 3 * 9 + 2 * 3 * 9)},
    ),
    "scores and their sum": (
        f'(({QKV}) -> (O{{f32}}[H N E])) (setf w (* 0.5 {SCORES})) (return (/ (einsum "hij,hje->hie" w V) (+ 1 (abs (sum w :axis -1 :keepdims t)))))',
        {(2, 9, 2, 9, 3): 2 * (2 * 9 * 2 * 3 + 9 * 2 + 9 * 2), (2, 2, 9, 3, 9): 2 * (2 * 3 * 9 + 2 * 3 * 9 + 2 * 3)},
    ),
    "integers": ("((A{i32}[I J] B{i32}[J K] c{i32}[K]) -> (O{i32}[I])) (return (matmul (matmul A B) c))", {(9, 8, 7): 9 * 8 + 8 * 7}),
    "complex numbers": ("((A{c64}[I J] B{c64}[J K] c{c64}[K]) -> (O{c64}[I])) (return (matmul (matmul A B) c))", {(9, 8, 7): 9 * 8 + 8 * 7}),
}  # fmt: skip

# what stays as it is written
LEFT = {
    "two matrices": f"(({ABC}) -> (O{{f32}}[I K])) (return (matmul A B))",
    "what is read as it is, too": f"(({ABC} c{{f32}}[K]) -> (O{{f32}}[I] P{{f32}}[I K])) (setf p (matmul A B)) (return (matmul p c) p)",
    "something between": f"(({ABC} c{{f32}}[K]) -> (O{{f32}}[I])) (return (matmul (max (matmul A B) 0) c))",
    "no order is less": "((X{f32}[N D] S{f32}[D D]) -> (O{f32}[N])) (return (sum (* X (matmul X S)) :axis -1))",
    "small floats": "((A{f16}[I J] B{f16}[J K] c{f16}[K]) -> (O{f16}[I])) (return (matmul (matmul A B) c))",
    "a softmax": f'(({QKV}) -> (O{{f32}}[H N E])) (return (einsum "hij,hje->hie" (softmax {SCORES} :axis -1) V))',
}


def ordered(text: str) -> tuple[Graph, Graph]:
    graph = simplify(raise_loops(composite(f"(composite ordered {text})"), TARGET, OPTIONS), TARGET, OPTIONS)
    found = reassociate(graph, TARGET, OPTIONS)
    verify(found)
    return graph, found


def products(graph: Graph, sizes: dict[str, int]) -> int:
    """How many terms all sums have that are computed: of two values that the sizes choose from, those of one."""
    found: set[Node] = set()
    stack = [n for _, n in graph.outputs]
    while stack:
        n = stack.pop()
        if n not in found:
            found.add(n)
            args = n.args
            if n.op == "where" and args[0].node.op == "const":
                args = (args[1 if args[0].domain is not None and evaluate(args[0].domain, sizes) else 2],)
            stack += [a.node for a in args]
    return sum(prod(evaluate(e, sizes) for e in (*n.shape, *n.attr.extents)) for n in found if n.op == "reduce")


@pytest.mark.parametrize("name", FORMS)
def test_takes_the_fewest_products(name: str) -> None:
    text, least = FORMS[name]
    graph, found = ordered(text)
    module = make_nests(fuse(found, TARGET, OPTIONS), TARGET, OPTIONS)
    verify(module)
    legal = legalize(module, TARGET, OPTIONS)
    for seed, (values, count) in enumerate(least.items()):
        sizes = dict(zip((s.name for s in graph.sizes), values, strict=True))
        print(f"seed {seed}, sizes {sizes}")
        assert products(found, sizes) == count
        assert products(graph, sizes) >= count
        inputs = draw(graph, sizes, seed)
        want = meaning(graph, inputs, sizes)
        agree(meaning(found, inputs, sizes), want, graph, f"{name}, the graph, seed {seed}")
        agree(outputs(legal, inputs, sizes, seed), want, graph, f"{name}, the nests, seed {seed}")


@pytest.mark.parametrize("name", LEFT)
def test_leaves_the_rest(name: str) -> None:
    graph, found = ordered(LEFT[name])
    assert found is graph


def test_no_elements() -> None:
    graph = composite("(composite none ((A{f32}[0 5] B{f32}[5 4] c{f32}[4]) -> (O{f32}[0])) (return (matmul (matmul A B) c)))")
    assert reassociate(graph, TARGET, OPTIONS) is graph


def test_one_kernel_takes_either_order_and_what_follows() -> None:
    """What follows pointwise is computed with each of two orders: no tensor stands between, and nothing of one order is stored for the other."""
    text = f'(composite c (({QKV} b{{f32}}[E]) -> (O{{f32}}[H N E])) (return (max 0 (+ b (einsum "hij,hje->hie" {SCORES} V)))))'
    (c,) = compilations(text, Settings(runtime="clang", target="x86-64-v3"))
    module = c.module
    assert [k.name for k in module.kernels] == ["c_0", "c_1", "c_2"]
    assert all("where" in str(t.shape[0]) for t in module.temps)


@needs_cc
def test_runs_in_both_orders() -> None:
    text = f'(composite c (({QKV} b{{f32}}[E]) -> (O{{f32}}[H N E])) (setf w (* 0.125 {SCORES})) (return (+ b (/ (einsum "hij,hje->hie" w V) (+ 1 (abs (sum w :axis -1 :keepdims t)))))))'
    f = luminal.compile(text, runtime="clang")
    rng = np.random.default_rng(SEED)
    for h, n, d, m, e in [(2, 300, 4, 200, 5), (2, 5, 120, 7, 130), (1, 1, 64, 1, 64), (3, 0, 4, 5, 6), (0, 3, 4, 5, 6)]:
        q, k, v, b = (rng.standard_normal(s).astype(np.float32) for s in ((h, n, d), (h, m, d), (h, m, e), (e,)))
        w = 0.125 * np.einsum("hid,hjd->hij", *(x.astype(np.float64) for x in (q, k)))
        want = b + np.einsum("hij,hje->hie", w, v) / (1 + abs(w.sum(-1, keepdims=True)))
        print(f"seed {SEED}, H {h} N {n} D {d} M {m} E {e}")
        np.testing.assert_allclose(f(q, k, v, b), want, rtol=2e-5, atol=2e-5)
