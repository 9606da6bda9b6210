"""What is claimed of floats (`ir/float_ranges.py`): that it holds, and that exponentials which go by it (`passes/spare_bounds.py`) are the same to the last bit."""

from __future__ import annotations

import math
from pathlib import Path

import luminal
import numpy as np
import pytest
from compilers import FAMILIES, needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.dtypes import f32, i64
from luminal.ir.expr import ZERO, Expr, broadcast, call, const, load, make, size, var
from luminal.ir.float_ranges import ANY, Range, float_range
from luminal.ir.graph import Port, Size
from luminal.ir.instructions import EXP_INSIDE, EXP_NEAR, SUM_EXP, WEIGHT
from luminal.ir.interpret.meaning import VALUE
from luminal.ir.program import Call, For, Function, Param, Program, StoreTo, statements
from luminal.ir.walks import postorder
from luminal.runtimes import find

pytestmark = pytest.mark.usefixtures("plain_c")

SEED, TREES = 11, 3000
X, Z = load("X", f32, ZERO), load("Z", f32, ZERO)
CONSTANTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.4e38, 1e-45, -1e-38, 87.0, math.inf, -math.inf, math.nan, 16777216.0)
UNARY = ("neg", "abs", "sin", "cos", "tanh", "erf", "atan", "exp", "exp2", "expm1", "sqrt", "recip")
BINARY = ("add", "sub", "mul", "div", "min", "max")


def tree(rng: np.random.Generator, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        return (X, Z, const(float(np.float32(rng.choice(CONSTANTS))), f32))[rng.integers(3)]
    first = tree(rng, depth - 1)
    match rng.integers(8):
        case 0 | 1 | 2:
            return call(str(rng.choice(UNARY)), first)
        case 3:
            return call("mul", first, first)
        case 4:
            return call("where", call("less_than", X, Z), first, tree(rng, depth - 1))
        case 5:
            return call("fma", first, tree(rng, depth - 1), tree(rng, depth - 1))
        case _:
            return call(str(rng.choice(BINARY)), first, tree(rng, depth - 1))


def values(e: Expr, given: dict[str, np.ndarray]) -> np.ndarray:
    done: dict[Expr, np.ndarray] = {}
    for n in postorder(e):
        if n.op == "const":
            done[n] = np.asarray(n.attr, np.float32 if n.dtype is f32 else np.int64)
        elif n.op == "load":
            done[n] = given[n.attr]
        else:
            found = VALUE[n.op](*(done[a] for a in n.args))
            done[n] = np.asarray(found, bool if n.dtype.kind == "bool" else np.float32)
    return done[e]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_value_leaves_its_range() -> None:
    rng = np.random.default_rng(SEED)
    special = [*CONSTANTS, np.finfo(np.float32).max, -np.finfo(np.float32).max, np.finfo(np.float32).tiny]
    x = np.concatenate([special, rng.standard_normal(40), rng.standard_normal(40) * 50, 2.0 ** rng.uniform(-149, 128, 40)]).astype(np.float32)
    grid = {"X": np.repeat(x, len(x)), "Z": np.tile(x, len(x))}
    claimed = 0
    for _ in range(TREES):
        e = tree(rng, int(rng.integers(1, 5)))
        low, high = float_range(e, lambda n: ANY)
        found = values(e, grid)
        found = found[~np.isnan(found)]
        assert low <= high or not found.size
        assert ((low <= found) & (found <= high)).all(), (e, low, high)
        claimed += (low, high) != ANY
    assert claimed > TREES // 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (call("sin", X), (-1, 1)),
        (call("neg", call("abs", X)), (-math.inf, 0)),
        (call("mul", const(-0.5, f32), call("mul", X, X)), (-math.inf, 0)),
        (call("exp", call("neg", call("mul", X, X))), (0, 1)),
        (call("min", call("max", X, const(-20.0, f32)), const(20.0, f32)), (-20, 20)),
        (call("div", call("abs", X), call("add", const(1.0, f32), call("exp", X))), (0, math.inf)),
        (call("add", X, Z), ANY),
    ],
    ids=str,
)
def test_ranges_are_near(text: Expr, found: tuple[float, float]) -> None:
    low, high = float_range(text, lambda n: ANY)
    assert low <= found[0] and found[1] <= high
    assert np.allclose([low, high], found, rtol=1e-5), (low, high)


def test_what_is_known_of_a_name_counts() -> None:
    assert float_range(call("mul", var("t", f32), const(2.0, f32)), lambda n: Range(-1.0, 3.0)).within(-2.1, 6.1)


def exponentials(form: str, target: str) -> set[str]:
    """Of vectors, in loops of the program."""
    text = f"(composite spared ((X{{f32}}[M N](where N > 1) Z{{f32}}[M N]) -> (Y{{f32}}[M N])) (return {form}))"
    (found,) = compilations(text, Settings(runtime="clang", target=target))
    nodes = [n for f in found.program.functions for s in statements(f.body) for e in s.expressions() for n in postorder(e) if n.dtype.lanes > 1]
    return {n.attr if n.op == "ins" else n.op for n in nodes} & {"exp", EXP_INSIDE.name, EXP_NEAR.name, SUM_EXP.name}


LEAST = -105.0  # of weights: e^x is less than half of the least number from -103.98 on
V4, V3 = "x86-64-v4", "x86-64-v3"


@pytest.mark.parametrize(
    ("form", "target", "named"),
    [
        ("(exp X)", V4, "exp"),
        ("(exp (* 2 (abs X)))", V4, "exp"),
        ("(/ (exp (sin (+ (* 2 X) 1))) 2)", V4, EXP_NEAR.name),  # through an array between two loops
        ("(/ (exp (sin (+ (* 2 X) 1))) 2)", V3, EXP_INSIDE.name),
        ("(exp (clip X -50 50))", V4, EXP_INSIDE.name),
        ("(/ (exp (clip X -50 50)) 2)", V4, EXP_INSIDE.name),
        ("(exp (clip X -4 4))", V4, EXP_NEAR.name),
        ("(exp (clip X -90 50))", V4, "exp"),
        ("(exp (* -0.5 (* X X)))", V4, "exp"),
        ("(exp (- (square X) (square Z)))", V4, "exp"),
        ("(+ Z (exp (- X Z)))", V4, "exp"),
        ("(+ X (sum (exp Z) :axis 0))", V4, "exp"),  # of as many terms as there are rows
    ],
)
def test_where_bounds_are_spared(form: str, target: str, named: str) -> None:
    assert exponentials(form, target) == {named}


def test_terms_of_a_long_sum() -> None:
    """What is left over of a row goes on from the sums of whole vectors, whose lanes are added up with it."""
    for term in ("(exp Z)", "(exp (clip Z -50 50))"):  # which asks for nothing more
        assert SUM_EXP.name in exponentials(f"(+ X (sum {term} :axis 1 :keepdims t))", V4)
    assert exponentials("(+ X (sum (exp Z) :axis 1 :keepdims t))", V3) == {"exp"}


MACHINES = [(march, family) for march in ("native", "x86-64-v3", "x86-64") for family in ("gcc", "clang") if family in FAMILIES]


def computed(calls: dict[str, Expr], given: dict[str, np.ndarray], march: str, family: str, path: Path) -> dict[str, np.ndarray]:
    """What a machine makes of expressions of `vload X[i]` and others, all of the same lanes."""
    runtime = find("clang")
    target = runtime.target(march, {"CC": FAMILIES[family], "OMP": False}, False)
    lanes, n = target.vector_bytes // 4, size("N")
    params = (*(Param(name, f32, True, True) for name in given), Param("Y", f32, True), Param("N", i64))
    functions = tuple(Function(f"k_{k}", params, (For("i", ZERO, n, (StoreTo("Y", var("i"), e),), const(lanes)),)) for k, e in calls.items())
    ports = (*(Port(name, f32, (n,), "in") for name in given), *(Port(f"Y_{k}", f32, (n,), "out") for k in calls))
    entry = tuple(Call(f"k_{k}", (*given, f"Y_{k}", n)) for k in calls)
    program = Program("spared", (Size("N", multiple=lanes),), ports, functions, entry)
    runtime.build(runtime.render(program, target, "lm_"), target, "shared", path, 240, [])
    length = len(next(iter(given.values())))
    found = {k: np.empty(length, np.float32) for k in calls}
    assert runtime.load(path, program, target, "lm_").call(given | {f"Y_{k}": y for k, y in found.items()}, {"N": length}) == 0
    return found


def vector(name: str, march: str) -> Expr:
    lanes = find("clang").target(march, {"OMP": False}, False).vector_bytes // 4
    return make("vload", f32.vector(lanes), (var("i"),), name)


@needs_cc
@pytest.mark.parametrize(("march", "family"), MACHINES)
def test_same_bits(march: str, family: str, tmp_path) -> None:
    """As those of the exponential that asks: all that is inside, NaN with anything in it, infinities where they are allowed."""
    x = vector("X", march)
    least = broadcast(const(LEAST, f32), x.dtype.lanes)
    calls = {"exp": call("exp", x), "inside": make("ins", x.dtype, (x,), EXP_INSIDE.name), "weight": make("ins", x.dtype, (x, least), WEIGHT.name)}
    rng = np.random.default_rng(SEED)
    nans = (rng.integers(0, 1 << 22, 4096).astype(np.uint32) | np.uint32(0x7FC00001)).view(np.float32)
    parts = [
        nans,
        -nans,
        rng.uniform(-EXP_INSIDE.most, EXP_INSIDE.most, 1 << 16),
        rng.uniform(-110, 0, 1 << 16),
        rng.uniform(-1, 1, 1 << 14),
        2.0 ** rng.uniform(-149, 6, 1 << 14),
    ]
    special = np.resize(np.array([0.0, -0.0, EXP_INSIDE.most, -EXP_INSIDE.most, -np.inf, -1e30, LEAST, -103.97, -103.98], np.float32), 64)
    given = np.concatenate([*parts, special]).astype(np.float32)
    found = computed(calls, {"X": given}, march, family, tmp_path / "spared.so")
    inside, below = ~(np.abs(given) > EXP_INSIDE.most), ~(given > 0)
    for name, where in (("inside", inside), ("weight", below)):
        missing = np.isnan(given) & where
        assert missing.sum() == 8192 and np.isnan(found[name][missing]).all()
        same = where & ~missing
        assert np.array_equal(found[name][same].view(np.uint32), found["exp"][same].view(np.uint32)), name


@needs_cc
@pytest.mark.parametrize(("march", "family"), MACHINES)
def test_exponentials_near_0(march: str, family: str, tmp_path) -> None:
    """Within two of the last places, as those of any number; NaN stays."""
    x = vector("X", march)
    given = np.concatenate(
        [
            np.random.default_rng(SEED).uniform(-EXP_NEAR.most, EXP_NEAR.most, 1 << 17),
            np.resize([np.nan, 0.0, -0.0, EXP_NEAR.most, -EXP_NEAR.most], 1024),
        ]
    ).astype(np.float32)
    (found,) = computed({"near": make("ins", x.dtype, (x,), EXP_NEAR.name)}, {"X": given}, march, family, tmp_path / "near.so").values()
    real = ~np.isnan(given)
    exact = np.exp(given[real].astype(np.float64))
    place = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert np.isnan(found[~real]).all()
    assert (np.abs(found[real] - exact) <= 2 * place).all()


@needs_cc
@pytest.mark.parametrize(("march", "family"), MACHINES)
def test_what_is_added_up(march: str, family: str, tmp_path) -> None:
    """Within what is said of it, with all that is no number, beyond all ends and among the denormal ones."""
    x, a = vector("X", march), vector("A", march)
    rng = np.random.default_rng(SEED)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 88.722839, 88.722847, 177.6, 1e9, 3e38, -103.97, -104, -1e9, -3e38], np.float32)
    given = np.concatenate(
        [rng.uniform(-110, 90, 1 << 16), rng.normal(size=1 << 16), 10.0 ** rng.uniform(-20, 38, 1 << 14), np.resize(special, 1024)]
    ).astype(np.float32)
    added = np.concatenate([np.zeros(1 << 15), rng.normal(size=len(given) - (1 << 15))]).astype(np.float32)
    (found,) = computed({"sum": make("ins", x.dtype, (a, x), SUM_EXP.name)}, {"A": added, "X": given}, march, family, tmp_path / "added.so").values()
    with np.errstate(over="ignore"):
        power = np.exp(given.astype(np.float64))
        wanted = (added + power).astype(np.float32)
        finite = np.isfinite(wanted) & (power < 2.0**127)
        assert np.array_equal(np.isnan(wanted), np.isnan(found)) and (found[given > 88.8] == np.inf).all() and not finite.all()
    error = np.abs(found[finite] - (added + power)[finite])
    assert (
        error
        <= power[finite] * (2.0**-22 + 2.0**-24 + np.minimum(np.abs(given[finite]), 200) * 2.0**-28) + np.abs(wanted[finite]) * 2.0**-23 + 2.0**-147
    ).all()


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
def test_a_chain_is_right(target: str) -> None:
    f = luminal.compile("(composite chain ((X{f32}[N]) -> (Y{f32}[N])) (return (/ (exp (sin (+ (* 2 X) 1))) 2)))", target=target)
    x = np.concatenate([np.random.default_rng(SEED).standard_normal(5000) * 10, [0, -0.0, 1e30, np.inf, -np.inf, np.nan, 40000, -70000]]).astype(
        np.float32
    )
    with np.errstate(invalid="ignore"):
        wanted = np.exp(np.sin((2 * x + np.float32(1)).astype(np.float32).astype(np.float64))) / 2
    np.testing.assert_allclose(f(x), wanted, rtol=1e-6)
