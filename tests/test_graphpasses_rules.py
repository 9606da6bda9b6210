"""Every rule of the algebra, on random and on special values of every dtype that it admits: the same bits, but for the sign of a NaN."""

import numpy as np
import pytest
from luminal.ir.dtypes import DType, bool_, f32, i8, i32, numpy_dtype, u8
from luminal.ir.expr import call, cast, const, size
from luminal.ir.graph import Graph, Port, Size, const_node, elementwise, identity, input_node, scalar
from luminal.ir.interpret.graph import evaluate
from luminal.ir.target import Options
from luminal.passes.rules.algebra import ALGEBRA
from luminal.passes.rules.pattern import literal, parsed
from luminal.passes.simplify import simplify
from running import TARGET

N = size("N")
SPECIAL = {
    "float": [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5, 3e38, 1e-42],
    "int": [0, 1, -1, 127, -128],
    "uint": [0, 1, 2, 255, 128],
    "bool": [False, True],
}
CASES = [(r, d) for r in ALGEBRA for d in (f32, i32, i8, u8, bool_) if r.admits(d)]


def names(term, op="", position=0):
    """Variables of a term; those that are conditions apart."""
    if isinstance(term, tuple):
        for k, t in enumerate(term[1:]):
            yield from names(t, term[0], k)
    elif literal(term) is None:
        yield term, term == "c"


def node(term, d: DType, ports):
    if isinstance(term, tuple):
        args = [node(t, bool_ if term[0] == "where" and k == 0 else d, ports) for k, t in enumerate(term[1:])]
        return identity(elementwise(term[0], (N,), *args))
    value = literal(term)
    return scalar(const_node(const(value, d).attr, d)) if value is not None else identity(input_node(ports[term]))


def accepted(term, d: DType) -> bool:
    from luminal.ir.primops import OPS, accepts

    if not isinstance(term, tuple):
        return True
    if term[0] == "where":
        return all(accepted(t, bool_ if k == 0 else d) for k, t in enumerate(term[1:]))
    return accepts(OPS[term[0]], d) and all(accepted(t, d) for t in term[1:])


@pytest.mark.parametrize(("rule", "d"), CASES, ids=lambda x: x.pattern if hasattr(x, "pattern") else str(x))
def test_rule(rule, d):
    pattern = parsed(rule.pattern)
    if not accepted(pattern, d) or not accepted(parsed(rule.replacement), d):
        pytest.skip("no such operator on this dtype")
    found = dict(names(pattern))
    ports = {n: Port(n, bool_ if condition else d, (N,), "in") for n, condition in found.items()}
    before = node(pattern, d, ports).node
    out = Port("Y", before.dtype, (N,), "out")
    graph = Graph("t", (Size("N"),), (*ports.values(), out), (("Y", before),))
    after = simplify(graph, TARGET, Options())
    assert after.outputs[0][1] is not before, "the rule did not apply"
    columns = [SPECIAL[p.dtype.kind] for p in ports.values()]
    values = np.array(np.meshgrid(*[np.arange(len(c)) for c in columns])).reshape(len(columns), -1)
    inputs = {n: np.array(c, numpy_dtype(p.dtype))[k] for (n, p), c, k in zip(ports.items(), columns, values, strict=True)}
    sizes = {"N": values.shape[1]}
    a, b = (evaluate(g, inputs, sizes)["Y"].value for g in (graph, after))
    np.testing.assert_array_equal(a, b)
    if before.dtype.is_float:
        finite = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[finite]), np.signbit(b[finite]))


def test_casts_of_casts():
    """cast.T(cast.U(x)) loses the inner cast only where that changes nothing."""
    x = Port("X", i32, (N,), "in")

    def after(*chain):
        view = identity(input_node(x))
        for d in chain:
            view = identity(elementwise("cast", (N,), view, to=d))
        graph = Graph("t", (Size("N"),), (x, Port("Y", chain[-1], (N,), "out")), (("Y", view.node),))
        return [n.op for n in simplify(graph, TARGET, Options()).nodes()].count("cast")

    from luminal.ir.dtypes import f64, i16, i64

    assert after(i64, i32) == 0
    assert after(i64, f32) == 1
    assert after(f32, i32) == 2  # f32 rounds large integers
    assert after(f64, i32) == 0
    assert after(f64, i8) == 2  # from a float the cast saturates, from an integer it wraps
    assert after(i8, i32) == 2
    assert after(i64, i16) == 1


def test_a_cast_of_a_choice_between_literals():
    """No lanes of the wide dtype are left; each literal is cast as the element would be."""
    c = Port("C", bool_, (N,), "in")

    def after(d, a, b, source):
        sides = [scalar(const_node(v, source)) for v in (a, b)]
        chosen = elementwise("where", (N,), identity(input_node(c)), *sides)
        graph = Graph("t", (Size("N"),), (c, Port("Y", d, (N,), "out")), (("Y", elementwise("cast", (N,), identity(chosen), to=d)),))
        simplified = simplify(graph, TARGET, Options())
        given = {"C": np.array([True, False])}
        before, found = (evaluate(g, given, {"N": 2})["Y"].value for g in (graph, simplified))
        np.testing.assert_array_equal(before, found)
        return [n.op for n in simplified.nodes()].count("cast")

    from luminal.ir.dtypes import i64

    assert after(f32, 25, 0, i64) == 0
    assert after(i8, 300, -1, i64) == 0
    assert after(i32, 1, 0, i64) == 0
    assert after(f32, 2**24 + 1, 0, i64) == 1  # rounded


def test_folding_wraps_as_the_dtype_does():
    y = Port("Y", i8, (), "out")
    one = scalar(const_node(127, i8))
    graph = Graph("t", (), (y,), (("Y", elementwise("add", (), one, scalar(const_node(1, i8)))),))
    (node_,) = simplify(graph, TARGET, Options()).nodes()[:1]
    assert node_.op == "const" and node_.attr.value == -128
    assert call("add", cast(i8, const(1)), const(1, i8)).dtype is i8
