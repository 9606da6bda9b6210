"""Where the names of a kernel are is carried from step to step, and is what a walk of the kernel finds."""

from __future__ import annotations

from typing import Any

import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.expr import ONE, ZERO, const, minimum, size, var
from luminal.ir.kernel import Alloc, Buffer, If, Kernel, Let, Loop, Store
from luminal.ir.places import homes_in, path_of, settle
from luminal.ir.target import Options
from luminal.passes.schedule import plan, replay
from luminal.passes.schedule.tree import Facts, added, fresh, loop_around
from scheduling import CPU

N, M = size("N"), size("M")


def store(*index: Any) -> Store:
    return Store("X", index, ONE)


def kernel() -> Kernel:
    inner = Loop("j", ZERO, M, (store(var("i"), var("j")),), "parallel")
    other = Loop("k", ZERO, M, (store(var("i"), var("k")),), "parallel")
    choice = If(
        N.lt(M), (Loop("a", ZERO, N, (store(var("i"), var("a")),)),), (store(var("i"), ZERO), Loop("b", ZERO, N, (store(var("i"), var("b")),)))
    )
    return Kernel("f", ("X",), (Loop("i", ZERO, N, (Alloc(Buffer("t", ONE.dtype, ())), inner, choice, other), "parallel"),))


def test_the_way_to_a_name() -> None:
    k = kernel()
    assert [getattr(s, "axis", type(s).__name__) for s in path_of(k, "b")] == ["i", "If", "b"]
    assert [getattr(s, "axis", type(s).__name__) for s in path_of(k, "t")] == ["i", "Alloc"]
    assert path_of(k, "nothing") == ()


def test_the_loop_around_a_loop() -> None:
    k = kernel()
    j, b = (path_of(k, name)[-1] for name in "jb")
    assert isinstance(j, Loop)
    assert isinstance(b, Loop)
    assert loop_around(k, j) is k.body[0]
    assert loop_around(k, b) is None  # an `if` is
    assert loop_around(k, Loop("j", ZERO, M, ())) is None  # no loop of the kernel


@pytest.mark.parametrize(
    ("script", "new"),
    [
        ("vectorize_nothing", []),
        ("split j 4 tail=cut", ["j.0", "j.1", "j.t"]),
        ("split k 4 tail=pad", ["k.0", "k.1"]),
        ("split j 8 tail=pad\nvectorize j.1\nsplit k 4 tail=cut", ["j.0", "j.1", "k.0", "k.1", "k.t"]),
        ("split i 4 tail=cut", ["i.0", "i.1", "i.t", "j.b", "a.b", "b.b", "k.b"]),
        ("split a 3 tail=cut\nsplit b 2 tail=cut", ["a.0", "a.1", "a.t", "b.0", "b.1", "b.t"]),
    ],
)
def test_a_step_mends_them(script: str, new: list[str]) -> None:
    before = kernel()
    homes_in(before)
    after = before if script == "vectorize_nothing" else replay(before, Facts(), script)
    assert after.homes == walked(after)
    assert [s.axis for s in added(after, before) if isinstance(s, Loop)] == new


def walked(k: Kernel) -> dict[str, Any]:
    found: dict[str, Any] = {}
    settle(k.body, None, found)
    return found


@pytest.mark.pure
@pytest.mark.parametrize("name", ["attention", "softmax", "gemm", "conv2d"])
def test_the_automatic_scheduler_carries_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    carried = [0]
    taken = plan.taken

    def checked(k: Kernel, facts: Facts, line: str) -> Kernel:
        after = taken(k, facts, line)
        assert not any(isinstance(s, Let) and s.value is ZERO for s in k.body), "names of other nests are no statements of this one"
        if after.homes is not None:
            carried[0] += 1
            assert after.homes == walked(after), line
        return after

    monkeypatch.setattr(plan, "taken", checked)
    (compilation,) = compilations(name, Settings(target="x86-64-v3"))
    steps = sum(len(k.schedule) for k in compilation.module.kernels)
    assert carried[0] > steps * 0.9


@pytest.mark.pure
def test_how_often_a_loop_runs_at_most_is_asked_of_heads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of all statements in the loops around it: the hash of a loop is theirs."""
    monkeypatch.setattr(Loop, "__hash__", None)
    last = Loop("p", ZERO, minimum(const(4), N - var("i") * 4), (store(var("i"), var("p")),))
    ragged = Kernel("f", ("X",), (Loop("i", ZERO, N, (last,), "parallel"),))
    assert plan.Plan(ragged, Facts(), CPU, Options()).at_most("p") == 4


def test_a_name_that_is_taken_gets_the_first_free_ending() -> None:
    taken = {"i", "i.c"}
    assert [fresh("i", taken) for _ in range(3)] == ["i.b", "i.d", "i.e"]
    assert fresh("i.b", taken) == "i.f"
    assert fresh("k", taken) == "k"
    many = {"p"}
    names = [fresh("p", many) for _ in range(25 + 26 * 26 + 2)]
    assert [names[k] for k in (24, 25, 26, 25 + 26, -2, -1)] == ["p.z", "p.aa", "p.ab", "p.ba", "p.aaa", "p.aab"]
