"""Every sample and every library composite: right under the host shim, and taken by NVRTC."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cuda_unit import ROOT, Unit, built_together, check, compiled, inputs_of, needs_host, target, together, unit
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.errors import ToolError
from luminal.ir.program import BAD_INDEX
from luminal.runtimes.cuda import nvrtc

pytestmark = pytest.mark.usefixtures("plain_c")

SAMPLES = sorted(ROOT.glob("samples/*.toml"))
LIBRARY = sorted(ROOT.glob("ops/*/*.toml"))
SMALL = [
    ("softmax", "f16"),
    ("softmax", "bf16"),
    ("layer_norm", "bf16"),
    ("attention", "f16"),
    ("gelu", "f64"),
    ("linear", "bf16"),
    ("rotary", "f64"),
]


def name_of(path: Path) -> str:
    return f"{path.parent.name}_{path.stem}_"


SMALLER = [f"{n}_{d}_" for n, d in SMALL]
TAKEN = [*map(name_of, (*SAMPLES, *LIBRARY)), *SMALLER]


def one(source: str, prefix: str, **settings: object) -> Compilation:
    return compilations(source, Settings(runtime="cuda", prefix=prefix, **settings))[0]  # pyright: ignore[reportArgumentType]


def sources_of(prefixes: list[str], found: dict[str, Compilation]) -> dict[str, str]:
    return {p: found[p].rendered.source for p in prefixes}


@pytest.fixture(scope="module")
def found() -> dict[str, Compilation]:
    whole = {name_of(p): one(str(p), name_of(p)) for p in (*SAMPLES, *LIBRARY)}
    return whole | {f"{name}_{d}_": one(name, f"{name}_{d}_", dtype={"T": d}) for name, d in SMALL}


@pytest.fixture(scope="module")
def built(found: dict[str, Compilation], tmp_path_factory: pytest.TempPathFactory) -> Unit:
    place = tmp_path_factory.mktemp("cuda") / "all.so"
    return built_together(place, {prefix: c.program for prefix, c in found.items()}, sources_of(TAKEN, found), target())


def sizes_of(c: Compilation) -> list[tuple[dict[str, int], dict[str, Any]]]:
    """Sizes, and the scalar ports that the test binds."""
    names = [s.name for s in c.elaborate().sizes]
    scalars = [p.name for p in c.elaborate().ports if p.role == "scalar"]
    assert c.composite is not None
    declared = [({n: int(b[n]) for n in names}, {n: b[n] for n in scalars if n in b}) for b in c.composite.test.sizes if all(n in b for n in names)]
    return declared or [(dict.fromkeys(names, n), {}) for n in (2, 14)]


@needs_host
@pytest.mark.parametrize("prefix", TAKEN)
def test_right_under_the_shim(prefix: str, found: dict[str, Compilation], built: Unit) -> None:
    graph = found[prefix].elaborate()
    for sizes, scalars in sizes_of(found[prefix]):
        if not any(v > 200 for v in sizes.values()):
            check(built.library(prefix), graph, sizes, inputs_of(graph, sizes) | scalars)


@needs_host
def test_an_index_out_of_range_is_a_code(found: dict[str, Compilation], built: Unit) -> None:
    graph = found["movement_embedding_"].elaborate()
    sizes = {"V": 5, "D": 3, "N": 7}
    buffers = inputs_of(graph, sizes)
    library = built.library("movement_embedding_")
    index = next(p.name for p in graph.ports if p.dtype.is_integer)
    output = next(p.name for p in graph.ports if p.role == "out")
    buffers[output] = buffers["W"][buffers[index]].copy()
    assert library.call(buffers, sizes) == 0
    buffers[index][4] = 5
    assert library.call(buffers, sizes) == BAD_INDEX
    buffers[index][4] = 0
    assert library.call(buffers, sizes) == 0  # the code is given once


@needs_host
@pytest.mark.parametrize("level", [0, 1])
def test_the_plainer_levels(level: int, tmp_path: Path) -> None:
    c = one(str(ROOT / "samples" / "mlp.toml"), "lm_")
    graph, sizes = c.elaborate(), {"N": 7, "K": 13, "H": 29, "M": 5}
    library = unit(tmp_path / "mlp.so", {"lm_": compiled(graph, target(), level)}, target()).library("lm_")
    check(library, graph, sizes, inputs_of(graph, sizes))


def nvrtc_version() -> str:
    try:
        return nvrtc.version()
    except ToolError:
        return ""


CHUNK = 48  # composites that NVRTC is given together: it takes a third of the time of one by one
OPTIMISED = ["samples_conv2d_", "samples_softmax_"]  # test_cuda_products.py has products of matrices
ASSEMBLED = [
    *map(name_of, SAMPLES),
    *SMALLER,
    "quantize_quantize_q4_0_",
    "quantize_dequantize_q4_0_",
]  # together they have all instructions that are written out
needs_nvrtc = pytest.mark.skipif(not nvrtc_version(), reason="NVRTC is not installed")


@needs_nvrtc
@pytest.mark.parametrize(
    ("prefixes", "architecture", "optimised"),
    [(TAKEN[k : k + CHUNK], "compute_80", False) for k in range(0, len(TAKEN), CHUNK)]
    + [(ASSEMBLED, "sm_80", False), (ASSEMBLED, "sm_90a", False), (OPTIMISED, "sm_90a", True), ([*map(name_of, SAMPLES)], "sm_75", False)],
    ids=lambda x: f"{x[0]}…{x[-1]}" if isinstance(x, list) else str(x),
)
def test_nvrtc_takes_it(
    prefixes: list[str], architecture: str, optimised: bool, found: dict[str, Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVRTC's messages name the composite in the place of a file.  To optimise takes it nine tenths of its time, and what is taken is the same; to assemble takes three quarters of the rest,
    and what PTX it assembles is NVRTC's own, but for instructions that are written out."""
    if not optimised:
        monkeypatch.setattr(nvrtc, "OPTIONS", (*nvrtc.OPTIONS, "--Ofast-compile=max"))
    product = "cubin" if architecture.startswith("sm_") else "ptx"
    made = nvrtc.compile_text(together(sources_of(prefixes, found)), architecture, product, [])
    assert made.startswith(b"\x7fELF") == (product == "cubin")
    for p in prefixes:
        for f in found[p].program.functions:
            assert f"{p}{f.name}".encode() in made, f"{p}{f.name}"


def test_every_instruction_that_is_written_out_is_assembled(found: dict[str, Compilation]) -> None:
    def instructions(prefixes: list[str]) -> set[str]:
        return {i for text in sources_of(prefixes, found).values() for i in re.findall(r'asm(?: volatile)?\s*\(\s*"([^"]*)"', text)}

    assert len(instructions(TAKEN)) > 10 and instructions(ASSEMBLED) == instructions(TAKEN)


@needs_nvrtc
def test_nvrtc_says_which_of_them_it_does_not_take(found: dict[str, Compilation]) -> None:
    sources = sources_of(TAKEN[:3], found)
    with pytest.raises(ToolError, match=rf"{TAKEN[1]}\(\d+\): error: .*nonsense"):
        nvrtc.compile_text(together(sources | {TAKEN[1]: sources[TAKEN[1]] + "int x = nonsense;\n"}), "sm_80", "cubin", [])
