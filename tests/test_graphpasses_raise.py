"""Which loops become tensor algebra, which must not, and what is said about those."""

import pytest
from luminal.ir.target import Options
from luminal.ir.text import show
from luminal.passes import raise_loops as raising
from luminal.passes.loops import concurrency, loop_events, written_out
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from luminal.passes.simplify import simplify
from running import TARGET, composite
from test_graphpasses_meaning import LOOPS, floats

STAY = {
    "reverse in place": "X[N - i - 1] is read where another iteration stores X[i]",
    "X + its shift": "X[i + 1] is read where another iteration stores X[i]",
    "Floyd-Warshall": "D[i, k] is read where another iteration stores D[i, j]",
    "transposed into itself": "A[j, i] is read where another iteration stores A[i, j]",
    "histogram": "where H is stored is data",
    "the last one wins": "Y[0] is stored again by later iterations of a loop",
    "data bounds": "the bounds of the loop over j are data",
    "lu": "A[i, k] is read where another iteration stores A[i, j]",
    "permuted accumulation": "two iterations may store the same element: Y[i * 7 % N]",
}


def raised(text: str, options: Options | None = None):
    return raise_loops(composite(f"(composite t {floats(text)})"), TARGET, options or Options())


def nests(graph):
    return [n for n in graph.nodes() if n.op == "nest"]


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_raised(name):
    graph = raised(LOOPS[name])
    left = nests(graph)
    assert bool(left) == (name in STAY)
    if left:
        assert any(STAY[name] in reason for n in left for reason in n.attr.nest.notes)
        module = make_nests(graph, TARGET, Options())
        assert any(STAY[name] in note for k in module.kernels for note in k.notes)


@pytest.mark.parametrize("name", ["gemm", "gemm, p outermost"])
def test_the_loop_gemm_is_the_matmul(name):
    """The same node, whatever the order of the loops, and so the same kernel."""
    tensor = composite(floats("(composite t ((A[M K] B[K N] C[M N]) -> (C)) (return (+ C (matmul A B))))"))
    ((_, loop),) = raised(LOOPS[name]).outputs
    ((_, node),) = simplify(tensor, TARGET, Options()).outputs
    assert loop is node


def test_loops_without_dependences_stay_parallel():
    def kinds(name):
        kernel = make_nests(raised(LOOPS[name]), TARGET, Options()).kernels[-1]
        return [line.split()[1] for line in show(kernel).splitlines() if line.endswith("parallel:")]

    assert kinds("lu") == ["i", "j"]
    assert kinds("data bounds") == ["i"]
    # the row and the column that all others read stand between those before and those behind them; so there are two loops over rows, and six over columns
    assert sorted(axis.rstrip("0123456789") for axis in kinds("Floyd-Warshall")) == ["i"] * 2 + ["j"] * 6
    assert kinds("histogram") == []


def test_strict_keeps_the_order_of_sums():
    graph = raised(LOOPS["gemm"], Options(strict=True))
    assert "--strict" in nests(graph)[0].attr.nest.notes[0]
    assert not nests(raised(LOOPS["relu"], Options(strict=True)))


def test_a_while_stays():
    graph = raised("((X[N]) -> (X)) (set i 0) (while (< i n) :max 9 (setf (aref X 0) 1) (incf i))")
    assert all("while" in n.attr.nest.notes[0] for n in nests(graph)) and nests(graph)


def test_raising_is_idempotent():
    for text in LOOPS.values():
        once = raised(text)
        assert raise_loops(once, TARGET, Options()) == once


def counted(monkeypatch, place, name):
    """How often a function is called from now on."""
    calls, f = [], getattr(place, name)

    def count(*args):
        calls.append(args)
        return f(*args)

    monkeypatch.setattr(place, name, count)
    return calls


TWICE = """
(composite sorted_into ((I{int}[N] H{float}[K]) -> (H)) (dotimes (i n) (incf (aref H (aref I i)))))
(composite t ((I{int}[N] J{int}[N] H{float}[K] G{float}[K]) -> (Y{float}[K] Z{float}[K]))
  (setf Y (sorted_into I H)) (setf Z (sorted_into J G)))
"""


def test_nests_that_are_equal_are_looked_at_once(monkeypatch):
    graph = composite(TWICE)
    assert len({n.attr.nest for n in nests(graph)}) == 1 < len(nests(graph))
    looks, events = counted(monkeypatch, raising, "_parallel"), counted(monkeypatch, loop_events.Events, "__init__")
    assert len(nests(raise_loops(graph, TARGET, Options()))) == 2
    assert len(looks) == 1 and len(events) <= 2, "as it is written, and as it stays"


def test_a_nest_with_a_while_of_unknown_rounds_is_not_written_out(monkeypatch):
    """Nothing behind the `while` is looked at."""
    stores = counted(monkeypatch, written_out._Writing, "store")
    raised("((X[N 8]) -> (X)) (dotimes (i n) (set k 0) (while (< k n) :max 9 (incf k)) (dotimes (j 7) (setf (aref X i j) (aref X i (+ j 1)))))")
    assert not stores
    raised("((X[N 8]) -> (X)) (dotimes (i n) (set k 0) (while (< k 3) :max 9 (incf k)) (dotimes (j 7) (setf (aref X i j) (aref X i (+ j 1)))))")
    assert len(stores) >= 7


def test_the_first_pair_of_accesses_that_meets_decides(monkeypatch):
    """What the others are in an iteration is not asked."""
    seen = counted(monkeypatch, concurrency, "in_iteration")
    stores = " ".join(f"(setf (aref Y {k}) (+ (aref Y {k}) (aref X (aref I i))))" for k in range(20))
    raised(f"((X{{float}}[N] I{{int}}[N] Y{{float}}[20]) -> (Y)) (dotimes (i n) {stores} (setf (aref Y (mod (aref I i) 20)) 1))")
    assert 0 < len(seen) < 20
