"""docs/language.md: every example is compiled and run against the reference, every row of a table against NumPy, every error is the one that is given."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import luminal
import numpy as np
import pytest
from compilers import HAS_CC
from cuda_unit import needs_host
from luminal.cli.testing import bindings
from luminal.compiler import Compilation, Settings, Unit
from luminal.dsl import Scope, elaborate, read, render_diagnostics
from luminal.ir.dtypes import dtype, numpy_dtype
from luminal.ir.errors import SourceError
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import judge
from running import draw, outputs
from scipy import special

pytestmark = pytest.mark.usefixtures("plain_c")

TEXT = (Path(__file__).parent.parent / "docs" / "language.md").read_text()
BLOCKS = re.findall(r"^```(\w+)( \w+)?\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
ROWS = [
    [cell.strip().strip("`").replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in TEXT.splitlines()
    if line.startswith("| `(")
]
EXAMPLES = [(language, text) for language, kind, text in BLOCKS if language in ("lisp", "toml") and not kind]
ERRORS = [(BLOCKS[k][0], BLOCKS[k][2], BLOCKS[k + 1][2]) for k in range(len(BLOCKS) - 1) if BLOCKS[k][1] == " error" and BLOCKS[k + 1][0] == "text"]
PLAIN = {"clang": {"OMP": 0, "DEBUG": 1}, "cuda": {"DEBUG": 1}}
COUNT, EACH = 67, 8
MOST = 20_000  # the product of the sizes, beyond which an interpreter that runs lane by lane takes many seconds
TOGETHER = 15  # rows of the tables in one composite
RUNTIMES = ["reference", *(["clang"] if HAS_CC else [])]
SPECIAL = [r for r in ROWS if len(r) == 4]
TABLES = [r for r in ROWS if len(r) == 3 and r[1] and not r[1][0].isupper()]


def test_nothing_on_the_page_is_left_out() -> None:
    assert len(BLOCKS) == TEXT.count("\n```") // 2 == len(EXAMPLES) + 2 * len(ERRORS) + 1
    assert len(TABLES) > 90 and len(SPECIAL) > 50


@pytest.mark.parametrize("k", range(len(EXAMPLES)))
def test_an_example_means_what_its_kernels_do(k: int) -> None:
    """At `-O2`, on small odd sizes or those of its `[test]`, in vectors of a machine's length: this interpreter runs them lane by lane."""
    language, text = EXAMPLES[k]
    composites = read(text, f"example.{language}")
    for composite in composites:
        c = Compilation(Unit("example", text, composites), composite, Settings(runtime="reference", config={"VECTOR": 32}))
        graph = c.elaborate()
        assert not c.warnings, render_diagnostics(c.warnings)
        for seed, (sizes, scalars) in enumerate(bindings(c, {})):
            if math.prod(sizes.values()) > MOST:
                assert seed > 1
                continue
            inputs = draw(graph, sizes, seed) | scalars
            found = outputs(c.module, inputs, sizes, seed)
            assert found is not None, f"{composite.name} {sizes}"
            for name, expected in evaluate(graph, inputs, sizes).items():
                verdict = judge(found[name], expected, graph.port(name).dtype)
                assert verdict.ok, f"{composite.name} {sizes}: {name} is off by {verdict.max_bound_ratio} bounds"


def operands() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    normal = rng.standard_normal
    return {
        "x": normal((3, 4)), "y": normal((3, 4)), "p": np.abs(normal((3, 4))) + 0.1, "u": rng.uniform(-0.9, 0.9, (3, 4)), "v": normal(4), "m": normal((4, 5)),
        "z": normal((2, 3, 4)), "w": normal((2, 4, 3)), "n": rng.integers(-9, 10, (3, 4)), "q": rng.integers(1, 6, (3, 4)), "c": rng.integers(0, 2, (3, 4)) > 0,
        "j": rng.integers(0, 3, 5), "k": rng.integers(0, 4, (3, 4)), "bits": rng.integers(0, 1 << 16, (3, 4)), "s": 0.5,
        "g": normal((3, 4)) + 1j * normal((3, 4)), "h": normal((3, 4)) + 1j * normal((3, 4)),
    }  # fmt: skip


@pytest.mark.parametrize("first", range(0, len(TABLES), TOGETHER))
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_row_of_a_table_is_what_numpy_says(runtime: str, first: int) -> None:
    """Some rows are the outputs of one composite: every two outputs are asked whether they overlap, so that many take a compiler long."""
    rows = TABLES[first : first + TOGETHER]
    (ports,) = [text.strip().strip("()") for _, kind, text in BLOCKS if kind == " ports"]
    names = [f"o{k}" for k in range(len(rows))]
    text = f"(composite table (({ports}) -> ({' '.join(names)}))\n  (return {' '.join(form for form, _, _ in rows)}))"
    function = luminal.compile(text, runtime=runtime, O=1, config=PLAIN.get(runtime, {}))
    types = {p.name: numpy_dtype(p.dtype) for p in function.compilation.program.ports}
    values = operands()
    given = {name: value if name == "s" else np.asarray(value).astype(types[name]) for name, value in values.items()}
    wide = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}
    exact = {name: np.asarray(v).astype(wide.get(np.asarray(v).dtype, np.asarray(v).dtype)) for name, v in given.items()}
    found = function(**given)
    for (form, numpy_form, _), got in zip(rows, found if len(rows) > 1 else (found,), strict=True):
        want = np.asarray(eval(numpy_form, {"np": np, "special": special, **exact}))
        assert got.shape == want.shape, form
        assert got.dtype.kind == want.dtype.kind or {got.dtype.kind, want.dtype.kind} <= {"i", "u"}, (form, got.dtype, want.dtype)
        if got.dtype.kind in "fc":
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6, err_msg=form)
        else:
            np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=form)


@pytest.mark.parametrize("first", range(0, len(SPECIAL), EACH))
@pytest.mark.parametrize("runtime", [*RUNTIMES, pytest.param("cuda", marks=needs_host)])
def test_special_values(runtime: str, first: int) -> None:
    """Each row has operands of its own in one composite of some: COUNT times the same, so that vectors and what is left over take part."""
    rows, ports, forms, given = SPECIAL[first : first + EACH], [], [], {}
    for k, (form, kind, values, _) in enumerate(rows):
        for letter, value in zip("ab", values.split(","), strict=False):
            found = dtype(kind)
            assert found is not None
            ports.append(f"{letter}{k}{{{kind}}}[N]")
            given[f"{letter}{k}"] = np.array([float(value) if found.is_float else int(value)] * COUNT, numpy_dtype(found))
        forms.append(re.sub(r"\b([ab])\b", rf"\g<1>{k}", form))
    text = f"(composite special (({' '.join(ports)}) -> ({' '.join(f'o{k}' for k in range(len(forms)))})) (return {' '.join(forms)}))"
    function = luminal.compile(text, runtime=runtime, config=PLAIN.get(runtime, {}), device="host" if runtime == "cuda" else None)
    wrong = []
    for (form, kind, values, gives), got in zip(rows, function(**given), strict=True):
        want = {"t": True, "nil": False}.get(gives)
        want = np.array([float(gives) if got.dtype.kind in "fV" else int(gives)] * COUNT if want is None else [want] * COUNT).astype(got.dtype)
        same = (got == want) | ((got != got) & (want != want))
        if got.dtype.kind == "f":
            same &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
        wrong += [f"{form} {kind} {values}: {got[k]} at {k}, not {gives}" for k in np.flatnonzero(~same)[:1]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("k", range(len(ERRORS)))
def test_an_error_is_the_one_that_is_shown(k: int) -> None:
    language, text, said = ERRORS[k]
    with pytest.raises(SourceError) as caught:
        composites = read(text, f"example.{language}")
        elaborate(composites[-1], Scope(composites))
    assert render_diagnostics(caught.value.diagnostics) + "\n" == said
