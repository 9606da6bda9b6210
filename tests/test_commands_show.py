"""`luminal show`: the figures of kernels, against counting by hand and against the graph."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from luminal.cli.main import cli
from luminal.compiler import Settings, compilations
from luminal.ir.errors import UsageError
from luminal.ir.evaluate import evaluate
from luminal.search.work import work_of

ROOT = Path(__file__).parent.parent


def luminal(*words: str, stdin: str = "") -> str:
    return CliRunner().invoke(cli, words, input=stdin, catch_exceptions=False, standalone_mode=False).stdout


def shown(*words: str) -> dict[str, Any]:
    return json.loads(luminal("show", *words, "--json"))


def test_gemm_by_hand() -> None:
    facts = shown(str(ROOT / "samples/gemm.toml"), "--sizes", "M=10, N=20, K=30")
    (kernel,) = facts["kernels"]
    assert kernel["reads"] == {"A": 4 * 10 * 30, "B": 4 * 30 * 20, "C": 4 * 10 * 20} and kernel["writes"] == {"C": 4 * 10 * 20}
    assert kernel["flops"] == 2 * 10 * 20 * 30 + 10 * 20 and kernel["share"] == 1.0 and facts["bottleneck"] == "gemm_0"
    assert facts["workspace"] == 0 and facts["peak"] == kernel["scratch"] + kernel["scratch_a_thread"] > 0


def test_temporaries_are_workspace() -> None:
    facts = shown(str(ROOT / "samples/mlp.toml"), "--sizes", "N=3, K=5, H=16, M=7")
    (temp,) = [b for b in facts["buffers"] if b["role"] == "temp"]
    assert temp["bytes"] == 3 * 16 * 4 == facts["workspace"] and len(facts["kernels"]) == 2
    assert sum(k["share"] for k in facts["kernels"]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "flops"), [("gemm", 2 * 7**3 + 7**2), ("sin", 7**2), ("floyd_warshall", 2 * 7**3), ("reverse", 0), ("softmax", 7 * 7**2)]
)
def test_flops_by_hand(name: str, flops: int) -> None:
    (c,) = compilations(str(ROOT / f"samples/{name}.toml"), Settings(runtime="reference"))
    sizes = {s.name: 7 for s in c.program.sizes}
    assert sum(evaluate(w.flops, sizes) for w in work_of(c.run(stop_after="make_nests"))) == flops


@pytest.mark.parametrize(
    ("batch", "columns", "beside"),
    [(40, 8192, 0), (40, 8193, 40 * 3 * 5), (2, 8193, 2 * 3 * 5), (2, 3 * 16384, 2 * (12 * 5 + 3 * 3 * 5))],
    ids=["a row in the cache", "tiles", "few rows", "chunks"],
)
def test_of_two_forms_the_one_that_the_sizes_choose_is_counted(batch: int, columns: int, beside: int) -> None:
    """Each element of a row takes seven operations in any form; a tile of 4096 corrects two states by five; merging 3 chunks takes 5 for each, once for every chunk that is written."""
    facts = shown(str(ROOT / "samples/softmax.toml"), "--runtime", "reference", "--sizes", f"batch={batch}, N={columns}")
    (kernel,) = facts["kernels"]
    assert kernel["flops"] == 7 * batch * columns + beside
    assert kernel["reads"]["X"] == kernel["writes"]["Y"] == 4 * batch * columns


def test_triangles_are_counted_exactly() -> None:
    """Each element takes what the one above it has become, so the loops stay."""
    triangle = "(composite t ((A{f32}[N N]) -> (A)) (dotimes (i N) (dotimes (j i) (incf (aref A i j) (aref A (- i 1) j)))))"
    facts = json.loads(luminal("show", "-", "--runtime", "reference", "--sizes", "N=10", "--json", stdin=triangle))
    assert [k["flops"] for k in facts["kernels"]] == [9 * 10 // 2]


def test_every_sample_and_composite_has_the_kernels_that_are_counted() -> None:
    for path in sorted((ROOT / "samples").glob("*.toml")):
        facts = shown(str(path), "--why")
        for kernel in facts["kernels"]:
            assert kernel["bytes"] == sum(kernel["reads"].values()) + sum(kernel["writes"].values()), path
        text = luminal("show", str(path), "--why")
        assert text.startswith(facts["composite"]) and text.count("of the estimated time") == len(facts["kernels"])


def test_dot_names_every_kernel_and_buffer(tmp_path: Path) -> None:
    file = tmp_path / "mlp.dot"
    luminal("show", str(ROOT / "samples/mlp.toml"), "-o", str(file))
    text = file.read_text()
    assert text.startswith('digraph "mlp" {') and text.rstrip().endswith("}")
    assert set(re.findall(r'^  "(\w+)" \[', text, re.M)) == {"X", "W1", "B1", "W2", "B2", "Y", "temp", "mlp_0", "mlp_1"}
    assert '"mlp_0" -> "temp"' in text and '"temp" -> "mlp_1"' in text


@pytest.mark.parametrize("sizes", ["M=3", "M=3, N=4, K=5, Q=6", "M=3D, N=4, K=5"])
def test_wrong_sizes_are_usage_errors(sizes: str) -> None:
    with pytest.raises(UsageError, match="--sizes"):
        luminal("show", str(ROOT / "samples/gemm.toml"), "--sizes", sizes)


@pytest.mark.parametrize("name", ["moe_gate", "adam"])
def test_kernels_that_were_joined_are_counted_as_one(name: str) -> None:
    done = CliRunner().invoke(cli, ["show", name], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "total" in done.output
