"""The host shim: barriers, orders, races; on programs made by hand, since no pass is asked here."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_unit import Unit, needs_host, target, unit
from luminal.ir.dtypes import f32, i64
from luminal.ir.errors import Unsupported
from luminal.ir.expr import ONE, Expr, call, cast, ceildiv, const, load, size, var
from luminal.ir.graph import Port, Size
from luminal.ir.program import DEVICE_ERROR, Array, Assign, Barrier, Block, Call, Define, For, Function, If, Param, Program, Region, Scratch, StoreTo
from luminal.ir.record import replace
from luminal.runtimes import find

pytestmark = needs_host

N, THREADS = size("N"), 64
b, t = var("b"), var("t")
at = b * THREADS + t
SIZES = {"N": 1000}


def program(name: str, body: Callable[[Expr], Block], shared: int = THREADS) -> Program:
    """One kernel over X[N] → Y[N]: blocks of 64 threads, each with the body; `tile` is shared by a block."""
    blocks = ceildiv(N, THREADS)
    inner = For("b", const(0), blocks, (For("t", const(0), const(THREADS), body(at.lt(N)), pragma="thread.x"),), pragma="block.x")
    params = (Param("X", f32, True, True), Param("Y", f32, True), Param("N", i64))
    f = Function(f"{name}_0", params, (Array("tile", f32, shared, "shared"), inner), (blocks, ONE, ONE), (const(THREADS), ONE, ONE))
    ports = (Port("X", f32, (N,), "in"), Port("Y", f32, (N,), "out"))
    return Program(name, (Size("N"),), ports, (f,), (Call(f.name, ("X", "Y", N)),))


def mirrored(*between: Barrier) -> Callable[[Expr], Block]:
    """Each block reverses its 64 elements through the shared tile; elements past N count as -1."""

    def body(inside: Expr) -> Block:
        return (
            Define("x", f32, const(-1.0, f32), mutable=True),
            If(inside, (Assign("x", load("X", f32, at)),)),
            StoreTo("tile", t, var("x", f32)),
            *between,
            If(inside, (StoreTo("Y", at, load("tile", f32, const(THREADS - 1) - t)),)),
            *between,  # the tile is written again for the next block
        )

    return body


def summed(inside: Expr) -> Block:
    """A tree in shared memory: six barriers, and fewer threads at work after each."""
    steps: list[Any] = [StoreTo("tile", t, call("where", inside, load("X", f32, at), const(0.0, f32))), Barrier()]
    for half in (32, 16, 8, 4, 2, 1):
        steps += [If(t.lt(half), (StoreTo("tile", t, call("add", load("tile", f32, t), load("tile", f32, t + half))),)), Barrier()]
    return (*steps, If(inside, (StoreTo("Y", at, load("tile", f32, const(0))),)), Barrier())


def last_one(inside: Expr) -> Block:
    """Every thread stores to Y[0]: whoever comes last stays."""
    return (If(inside, (StoreTo("Y", const(0), cast(f32, at)),)),)


def diverging(inside: Expr) -> Block:
    return (If(t.lt(8), (Barrier(),)),)


def shifted(inside: Expr) -> Block:
    """Reads X through Y: every thread writes its element and reads its neighbour's."""
    return (If((at + 1).lt(N), (StoreTo("Y", at, call("add", load("Y", f32, at + 1), load("X", f32, at))),)),)


PROGRAMS = {
    "good_": program("mirror", mirrored(Barrier())), "bad_": program("mirror", mirrored()), "sum_": program("sum", summed),
    "last_": program("last", last_one), "split_": program("split", diverging), "shift_": program("shift", shifted),
}  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    return unit(tmp_path_factory.mktemp("shim") / "plain.so", PROGRAMS, target())


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    on = target(RACE=1)
    return unit(tmp_path_factory.mktemp("shim") / "watched.so", PROGRAMS, on)


def run(found: Unit, prefix: str, seed: int = 1) -> tuple[int, np.ndarray, np.ndarray]:
    ctypes.CDLL(str(found.path)).lm_host_seed(ctypes.c_uint64(seed))
    x, y = np.arange(1000, dtype=np.float32) ** 2, np.zeros(1000, np.float32)
    code = found.library(prefix).call({"X": x, "Y": y}, SIZES)
    return code, x, y


def expected_mirror(x: np.ndarray) -> np.ndarray:
    padded = np.full(1024, -1, np.float32)
    padded[:1000] = x
    return padded.reshape(-1, THREADS)[:, ::-1].reshape(-1)[:1000]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 99])
def test_threads_wait_for_one_another(seed: int, plain: Unit) -> None:
    code, x, y = run(plain, "good_", seed)
    assert code == 0
    np.testing.assert_array_equal(y, expected_mirror(x))
    code, x, y = run(plain, "sum_", seed)
    sums = np.add.reduceat(x, np.arange(0, 1000, THREADS))
    np.testing.assert_allclose(y, np.repeat(sums, THREADS)[:1000], rtol=1e-5)


def test_a_seed_is_an_order(plain: Unit) -> None:
    """A kernel that hangs on the order of its threads is found out by trying seeds; seed 0 is ascending."""
    last = {seed: run(plain, "last_", seed)[2][0] for seed in range(12)}
    assert last[0] == 999 and len(set(last.values())) > 6
    assert run(plain, "last_", 5)[2][0] == last[5]
    assert not np.array_equal(run(plain, "shift_", 1)[2], run(plain, "shift_", 2)[2])


def test_a_missing_barrier_gives_a_wrong_answer(plain: Unit) -> None:
    _, x, y = run(plain, "bad_")
    assert not np.array_equal(y, expected_mirror(x))


def test_races_are_found(watched: Unit, capfd: pytest.CaptureFixture[str]) -> None:
    for prefix in ("good_", "sum_"):
        assert run(watched, prefix)[0] == 0
    assert capfd.readouterr().err == ""
    for prefix in ("bad_", "last_", "shift_"):
        assert run(watched, prefix)[0] == DEVICE_ERROR
        said = capfd.readouterr().err
        assert said.count("luminal: race: thread ") == 1 and "no barrier between them" in said
    assert run(watched, "good_")[0] == 0  # one launch's races are not the next one's


def test_a_barrier_that_not_all_reach(plain: Unit) -> None:
    symbol = f"lm = ctypes.CDLL({str(plain.path)!r}).split_split; x = (ctypes.c_float * 64)(); y = (ctypes.c_float * 64)()"
    done = subprocess.run(
        [sys.executable, "-c", f"import ctypes; {symbol}; lm(x, y, ctypes.c_int64(64), None)"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode < 0 and "8 of 64 threads are there" in done.stderr


def without_grid(p: Program) -> Program:
    return replace(p, functions=tuple(replace(f, grid=(), threads=()) for f in p.functions))


def with_body(p: Program, *statements: Any) -> Program:
    return replace(p, functions=tuple(replace(f, body=(*statements, *f.body)) for f in p.functions))


def test_what_no_gpu_runs_is_refused() -> None:
    on, good = target(), PROGRAMS["good_"]
    wide = replace(good, functions=tuple(replace(f, threads=(const(64), const(64), ONE)) for f in good.functions))
    cases = {"grid": without_grid(good), "scratch": with_body(good, Scratch("s", f32, N)), "region": with_body(good, Region(())), "threads": wide}
    for what, wrong in cases.items():
        with pytest.raises(Unsupported) as found:
            find("cuda").render(wrong, on, "lm_")
        assert found.value.what == what


def test_the_shim_stands_alone(tmp_path: Path, plain: Unit) -> None:
    """As its first lines say: one source, one header, a compiler of C++; here with a main function, and with warnings as errors."""
    from luminal.runtimes.cuda.driver import host_compiler

    (tmp_path / "sum.cu").write_text(plain.sources["sum_"])
    (tmp_path / "main.cpp").write_text(MAIN)
    command = [
        *host_compiler("").command,
        "-x",
        "c++",
        "-std=c++17",
        "-Wall",
        "-Werror",
        "-DLM_HOST",
        "-include",
        str(find("cuda").folder / "lm_host.h"),
    ]
    subprocess.run([*command, "-c", "sum.cu", "-o", "sum.o"], cwd=tmp_path, check=True, timeout=120)
    linked = [*host_compiler("").command, "-x", "c++", "main.cpp", "-x", "none", "sum.o", "-o", "main", "-lm"]
    subprocess.run(linked, cwd=tmp_path, check=True, timeout=120)
    assert subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=240).stdout == "0 3 3\n"


MAIN = """
#include <stdint.h>
#include <stdio.h>
extern "C" int32_t sum_sum(const float *X, float *Y, int64_t N, void *stream);
int main() {
  float x[3] = {0, 1, 2}, y[3];
  const int32_t code = sum_sum(x, y, 3, nullptr);
  printf("%d %g %g\\n", code, y[0], y[2]);
}
"""
