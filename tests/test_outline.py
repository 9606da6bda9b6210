"""One iteration of a parallel loop as a function of its own."""

from __future__ import annotations

import re
from pathlib import Path

import luminal
import numpy as np
import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.interpret.program import run
from luminal.ir.program import For, statements
from luminal.ir.text import read, show
from luminal.passes.lower import work
from test_runs import runtime

pytestmark = pytest.mark.usefixtures("plain_c")


def test_what_an_iteration_only_asks_for_is_a_parameter_too() -> None:
    """Of a complex value whose imaginary part nobody needs, hints are left."""
    inverse = luminal.compile("irfft", runtime="reference")
    x = np.fft.rfft(np.random.default_rng(4).standard_normal((3, 8))).astype(np.complex64)
    np.testing.assert_allclose(inverse(x), np.fft.irfft(x), atol=1e-6)


def emitted(batches: str) -> str:
    """The source of matrix products, perhaps some of them side by side."""
    ports = f"((A{{f32}}[{batches} M K] B{{f32}}[{batches} K N]) -> (C{{f32}}[{batches} M N]))"
    return luminal.compile(f"(composite p {ports} (return (matmul A B)))", target="x86-64-v3").source


def calls(source: str, name: str = "p_0_each") -> list[list[str]]:
    """What the function is called with, by one thread and by each of a team."""
    return [m[1].split(", ") for m in re.finditer(rf"^ +{name}\((.*)\);$", source, re.MULTILINE)]


def test_iterations_are_a_range() -> None:
    """One thread calls once, and so does each of a team, so that what does not move is found out once."""
    source = emitted("")
    alone, team = calls(source, "p_0_each_3")  # of rows alone
    (begin,) = (k for k, argument in enumerate(alone) if argument == "0")
    bounds = [re.search(rf"const int64_t {name} = part_i64\((\w+), {k}\);", source) for k, name in enumerate(team[begin : begin + 2])]
    assert all(bound is not None and bound[1] == alone[begin + 1] for bound in bounds)
    assert alone[:begin] + alone[begin + 2 :] == team[:begin] + team[begin + 2 :]


def test_what_one_thread_never_does_is_not_written() -> None:
    """Where the sizes under which there is a loop are worth a team, nobody asks."""
    source = luminal.compile("softmax", target="x86-64-v3").source  # its passes side by side are for many rows from memory
    assert "#pragma omp parallel" in source and not re.search(r"if \((0|false)\)", source)


def test_two_loops_divide_nothing() -> None:
    """What stands for two loops is two, for one thread and for the part that each of a team has of them."""
    source = emitted("Q")
    every = re.findall(r"^static void p_0_each\w*\(.*?^}$", source, re.DOTALL | re.MULTILINE)
    pieces = [piece for piece in every if "i_j_0_k_0" not in piece]  # short reductions share the batch, rows and columns, which are three
    assert (len(every), len(pieces)) == (4, 3) and not any("floordiv_i64" in piece or "mod_i64" in piece for piece in pieces)
    alone, team = calls(source, "p_0_each_3")
    assert not any("div" in argument for argument in (*alone, *team))
    assert [argument.split("(")[0] for argument in team if "(" in argument] == ["max_i64", "min_i64"]


@pytest.mark.parametrize("batches", ["", "Q"])
def test_parts_of_any_length(monkeypatch: pytest.MonkeyPatch, batches: str) -> None:
    """The program is read back as it is shown, and its parts make the whole, however they are cut: across the ends of the inner loop too."""
    monkeypatch.setattr(work, "FORK", 1)
    ports = f"((A{{f32}}[{batches} M K] B{{f32}}[{batches} K N]) -> (C{{f32}}[{batches} M N]))"
    (compilation,) = compilations(f"(composite p {ports} (return (matmul A B)))", Settings(runtime="clang", target="x86-64-v3"))
    program = compilation.program
    assert read(show(program)) == program
    assert any(isinstance(s, For) and s.end for f in program.functions for s in statements(f.body))
    rng, sizes = np.random.default_rng(2), {"M": 25, "K": 3, "N": 17} | ({"Q": 3} if batches else {})
    shape = (3,) if batches else ()
    a, b = rng.integers(-9, 9, (*shape, 25, 3)).astype("f4"), rng.integers(-9, 9, (*shape, 3, 17)).astype("f4")
    for together in (1, 2, 5):
        monkeypatch.setattr("luminal.ir.interpret.program.TOGETHER", together)
        c = np.zeros((*shape, 25, 17), "f4")
        assert run(program, {"A": a.ravel(), "B": b.ravel(), "C": c.ravel()}, sizes, check=True) == 0
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rows", [5, 29])
def test_team(monkeypatch: pytest.MonkeyPatch, batch: int, rows: int) -> None:
    """The same by threads."""
    monkeypatch.setattr(work, "FORK", 1)
    product = luminal.compile("matmul")
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((batch, rows, 40)).astype("f4"), rng.standard_normal((batch, 40, 50)).astype("f4")
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_a_language_whose_loops_have_no_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A runtime's own macro for loops that knows nothing of an end is given iterations one by one."""
    monkeypatch.setattr(work, "FORK", 1)
    loop = "for ({{ type }} {{ name }} = {{ start }}; {{ name }} < {{ stop }}; {{ name }} += {{ step_text }}) {\n  {{ body }}\n}\n"
    macro = "{% macro For(type, name, start, stop, step_text, body) %}\n" + loop + "{% endmacro %}\n"
    product = luminal.compile("matmul", runtime=str(runtime(tmp_path / "mine", statements=macro)))
    assert "part_i64" not in product.source and re.search(r"const int64_t end\w* = \w+ \+ 1;", product.source)
    a, b = np.arange(3 * 13 * 4, dtype="f4").reshape(3, 13, 4), np.arange(3 * 4 * 9, dtype="f4").reshape(3, 4, 9)
    np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(0, 3, 5), (7, 0, 5), (13, 4, 0), (13, 4, 50), (29, 3, 97)])
def test_meaning(batch: int, rows: int, depth: int, columns: int) -> None:
    product = luminal.compile("matmul")
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((batch, rows, depth)).astype("f4"), rng.standard_normal((batch, depth, columns)).astype("f4")
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_iterations_that_begin_behind_the_first_are_a_range_too() -> None:
    """Rows inside of a border, and those that another part has left over: each of a team has its part of them, and none is woken where there are none."""
    stencil = luminal.compile(Path("samples/stencil.toml"), target="x86-64-v3").source
    assert re.search(r"part_i64\(M - 2, 0\)", stencil) and re.search(r"stencil_0_each\w*\(.*i1 \+ 1, end_\d+ \+ 1", stencil)
    softmax = luminal.compile("softmax", target="x86-64-v3").source
    assert re.search(r"if \(N \* batch <= N \* i_done \+ \d+ \|\| batch <= i_done \+ 1\)", softmax) and re.search(
        r"part_i64\(batch - i_done, 0\)", softmax
    )
    assert len(re.findall(r"softmax_0_each_\d+\(.*i \+ i_done, end_\d+ \+ i_done", softmax)) == 1
