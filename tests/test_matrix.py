"""Products by warps: the step, what it refuses, what the verifier holds against a wrong mapping, and the function of the device against what the instructions do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from luminal.ir.errors import CompilerBug
from luminal.ir.interpret import program as interpreter
from luminal.ir.kernel import Module
from luminal.ir.program import Array, Matrix, Program, statements
from luminal.ir.target import Options
from luminal.ir.text import read, show
from luminal.ir.verify import verify
from luminal.passes.lower import lower
from luminal.passes.schedule import Facts, StepError, replay, unique
from luminal.runtimes import find
from scheduling import FLOATS, same

# one warp for a tile of 16 rows and 8 columns
WARP = (
    "split i 16 tail=pad\nsplit i.1 8\nsplit j 8 tail=pad\nsplit j.1 2\nreorder i.0 j.0 i.1.1 j.1.0 i.1.0 j.1.1\nsplit p 16 tail=pad\nfactors p.1\n"
    "expand acc i.1.1 j.1.0 i.1.0 j.1.1\nfission i.1.1 j.1.0 i.1.0 j.1.1\nreorder p.0 i.1.1.b j.1.0.b p.1 i.1.0.b j.1.1.b\nserial p.0\n"
    "stage A i.1.0.b i.1.1.b p.1 at=p.0 space=shared pad=8 plain=1\nstage B p.1 j.1.0.b j.1.1.b at=p.0 space=shared plain=1\n"
    "collapse i.0 j.0\nbind i.0_j.0 block.x\ncooperate i.0_j.0 32\nmatrix p.1"
)


def product(script: str = WARP, text: str = FLOATS, strict: bool = False) -> Module:
    before = read(text)
    assert isinstance(before, Module)
    return before.with_kernels((replay(unique(before.kernels[0]), Facts.of(before, strict), script),))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_warp_multiplies_what_its_threads_add_up(dtype: str) -> None:
    text = FLOATS.replace("bf16", dtype)
    before, after = read(text), product(text=text)
    assert isinstance(before, Module)
    verify(after)
    assert read(show(after)) == after
    assert "for p.1 in 0 .. 16 matrix:" in show(after)
    same(before, after)


REFUSED = {
    "before there are threads": (WARP.replace("cooperate i.0_j.0 32\n", ""), "in no loop over threads"),
    "half a warp": (WARP.replace("cooperate i.0_j.0 32", "cooperate i.0_j.0 16"), "whole warps of 32"),
    "an inner loop": (WARP.replace("matrix p.1", "matrix i.1.0.b"), "no one loop along the reduction"),
    "another nest": (WARP.replace("matrix p.1", "matrix p.0"), "no perfect nest"),
    "rows and columns of the other threads": (
        WARP.replace("reorder i.0 j.0 i.1.1 j.1.0", "reorder i.0 j.0 j.1.0 i.1.1")
        .replace("expand acc i.1.1 j.1.0", "expand acc j.1.0 i.1.1")
        .replace("fission i.1.1 j.1.0", "fission j.1.0 i.1.1")
        .replace("p.0 i.1.1.b j.1.0.b", "p.0 j.1.0.b i.1.1.b"),
        "lane 4 g . q of a warp does not have",
    ),
    "rows side by side": (WARP.replace("split i.1 8", "split i.1 2").replace("i.1.1", "i.1.x").replace("i.1.0", "i.1.1").replace("i.1.x", "i.1.0").replace("stage A i.1.1.b i.1.0.b", "stage A i.1.0.b i.1.1.b"), "a thread does not have two rows"),
    "converted while copied": (WARP.replace(" pad=8 plain=1", " pad=8"), "no two elements"),
    "rows that begin anywhere": (WARP.replace("pad=8", "pad=4"), "eight neighbours of `A.packed`"),
    "too short a reduction": (WARP.replace("split p 16", "split p 8"), "over a multiple of 16"),
    "memory that begins anywhere": (WARP.replace("pad=8", "pad=8 align=8"), "`A.packed` is no memory that the threads share, aligned to 16 bytes"),
    "pieces of what is no local array": (WARP.replace("matrix p.1", "swizzle A 1"), "`A` is no array"),
    "pieces of rows with gaps": (WARP.replace("matrix p.1", "swizzle A.packed 1"), "`A.packed` is no array of constant extents, without gaps"),
    "pieces of a thread's own": (WARP.replace("matrix p.1", "swizzle acc.all 1"), "is no array"),
    "pieces of few rows": (WARP.replace(" pad=8 plain=1", " plain=1").replace("matrix p.1", "swizzle A.packed 1"), "not made of whole groups of eight rows of 16"),
    "pieces of floats": (WARP.replace(" pad=8 plain=1", "").replace("matrix p.1", "swizzle A.packed 1"), "not made of whole groups of eight rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    script, said = REFUSED[case]
    with pytest.raises(StepError, match=said):
        product(script)


def test_strict_forbids_another_order() -> None:
    with pytest.raises(StepError, match="--strict forbids"):
        product(strict=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i.0_j.0.t // 4, p.1]", "i.0_j.0.t % 8, p.1]"),  # the rows of other lanes
        ("B.packed[p.1, i.0_j.0.t % 4,", "B.packed[p.1, i.0_j.0.t // 8,"),
        ("for i.0_j.0.t in 0 .. 32 thread.x", "for i.0_j.0.t in 0 .. 31 thread.x"),
        ("            for p.1 in 0", "            if i.0_j.0.t < 16:\n             for p.1 in 0"),  # some threads stay away
        (" align 64", " align 8"),
    ],
)
def test_the_verifier_holds_a_wrong_mapping_against_it(old: str, new: str) -> None:
    text = show(product())
    verify(read(text))
    head, nest = text[: text.index("p.1 in 0 .. 16 matrix")], text[text.index("p.1 in 0 .. 16 matrix") :]
    changed = head + nest.replace(old, new) if old in nest else text.replace(old, new)
    if "if i.0_j.0.t < 16" in new:
        changed = re.sub(r"(?m)^( +)(for p\.1 in 0 .*\n(?:\1 .*\n)+)", lambda m: f"{m[1]}if i.0_j.0.t < 16:\n" + re.sub("(?m)^", "  ", m[0]), text)
    assert changed != text
    with pytest.raises(CompilerBug, match=r"matrix axis p\.1") as caught:
        verify(read(changed))
    assert caught.value.where == "kernels/matrices"


def test_a_program_says_it_in_one_statement() -> None:
    program = lower(product(), find("cuda").target("sm_80", {}, True), Options())
    found = [s for f in program.functions for s in statements(f.body) if isinstance(s, Matrix)]
    assert [(s.instruction, s.tiles, s.left[2:], s.right[2:]) for s in found] == [("mma_bf16", (1, 1, 1), (24, 0, 1), (1, 0, 8))]
    assert read(show(program)) == program


def test_the_interpreter_adds_what_a_thread_has() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, (16, 16)).astype("f4") for _ in range(2))
    c = np.zeros(4, "f4")
    interpreter.matrix((1, 1, 1), 16, c, 0, (0, 2, 0, 1), a.reshape(-1), 3 * 16, 16, 0, 1, b.reshape(-1), 4, 1, 0, 16)
    assert c.tolist() == (a @ b)[[3, 3, 11, 11], [4, 5, 4, 5]].tolist()


# four warps for a tile of 64 rows and 64 columns, operands swizzled
GROUP = (
    "split i 64 tail=pad\nsplit i.1 16\nsplit i.1.1 8\nsplit j 64 tail=pad\nsplit j.1 8\nsplit j.1.1 2\nreorder i.0 j.0 i.1.0 i.1.1.1 j.1.1.0 i.1.1.0 j.1.0 j.1.1.1\nsplit p 64 tail=pad\nfactors p.1\n"
    "expand acc i.1.0 i.1.1.1 j.1.1.0 i.1.1.0 j.1.0 j.1.1.1\nfission i.1.0 i.1.1.1 j.1.1.0 i.1.1.0 j.1.0 j.1.1.1\nreorder p.0 i.1.0.b i.1.1.1.b j.1.1.0.b p.1 i.1.1.0.b j.1.0.b j.1.1.1.b\nserial p.0\n"
    "stage A i.1.0.b i.1.1.0.b i.1.1.1.b p.1 at=p.0 space=shared plain=1\nswizzle A.packed 1\nstage B p.1 j.1.0.b j.1.1.0.b j.1.1.1.b at=p.0 space=shared plain=1\nswizzle B.packed 3\n"
    "collapse i.0 j.0\nbind i.0_j.0 block.x\ncooperate i.0_j.0 128\nmatrix p.1"
)


def test_four_warps_multiply_what_is_swizzled() -> None:
    before, after = read(FLOATS), product(GROUP)
    assert isinstance(before, Module)
    verify(after)
    same(before, after)
    assert read(show(after)) == after
    runtime = find("cuda")
    for arch, together in (("sm_90a", True), ("sm_90", False), ("sm_100", False)):
        program = lower(after, runtime.target(arch, {}, True), Options())
        (found,) = (s for f in program.functions for s in statements(f.body) if isinstance(s, Matrix))
        assert (found.group, found.tiles, found.left[2:], found.right[2:]) == (together, (1, 8, 4), (64, 0, 1), (1, 8, 64))
        assert [s.swizzle for f in program.functions for s in statements(f.body) if isinstance(s, Array) and s.space == "shared"] == [64, 64]
        assert read(show(program)) == program
        source = runtime.render(program, runtime.target(arch, {}, True), "lm_").source
        assert ("wgmma.mma_async.sync.aligned.m64n64k16" in source) == together == ("published_u8();\n" in source)


@pytest.mark.parametrize(
    "script", [GROUP.replace("plain=1\nswizzle A.packed 1", "pad=8 plain=1"), GROUP.replace("swizzle B.packed 3\n", "")], ids=["A", "B"]
)
def test_what_lies_otherwise_is_multiplied_by_each_warp_for_itself(script: str) -> None:
    """As where rows are padded."""
    program = lower(product(script), find("cuda").target("sm_90a", {}, True), Options())
    assert [s.group for f in program.functions for s in statements(f.body) if isinstance(s, Matrix)] == [False]


@pytest.mark.skipif(not shutil.which("g++"), reason="threads of the host stand in for those of a warp")
def test_the_device_loads_and_multiplies_what_the_threads_have(tmp_path: Path) -> None:
    runtime = find("cuda")
    on = runtime.target("sm_80", {}, True)
    program = lower(product(), on, Options())
    assert isinstance(program, Program)
    source = runtime.render(program, on, "lm_").source
    text = (
        re.search(r"^[^\n]*\nstatic[^\n]* placed_u16.*?^}\n", source, re.DOTALL | re.MULTILINE),
        re.search(r"^template <int ROWS.*?^}\n", source, re.DOTALL | re.MULTILINE),
    )
    assert all(text)
    (tmp_path / "matrix.h").write_text("".join(t[0] for t in text if t))
    here = Path(__file__).parent / "fragments.cpp"
    made = tmp_path / "fragments"
    subprocess.run(
        ["g++", "-std=c++20", "-O1", f'-DMATRIX="{tmp_path / "matrix.h"}"', str(here), "-o", str(made), "-pthread"], check=True, timeout=120
    )
    ran = subprocess.run([str(made)], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout
