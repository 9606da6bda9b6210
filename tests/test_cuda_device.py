"""Running on a GPU, without one: CuPy is stood in for by a module that runs the same kernels under the host shim."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_cupy
import luminal
import numpy as np
import pytest
from cuda_unit import ROOT, check, needs_host
from luminal.compiler import Compilation, Settings, compilations
from luminal.ir.dtypes import DTYPES
from luminal.ir.errors import DeviceError, UsageError
from luminal.ir.kernel import If
from luminal.ir.program import BAD_INDEX, DEVICE_ERROR, NULL_POINTER, OVERLAP
from luminal.ir.record import replace
from luminal.runtimes.cuda import driver
from luminal.runtimes.cuda.device import DeviceLibrary
from luminal.runtimes.cuda.emit import kernel_names
from luminal.runtimes.cuda.entry import by_value

pytestmark = needs_host
GEMM = str(ROOT / "samples" / "gemm.toml")


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two devices, and CuPy."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
    monkeypatch.setattr(driver, "device_count", lambda: 2)
    monkeypatch.setattr(driver, "native_architecture", lambda: "sm_80")
    monkeypatch.setattr(fake_cupy, "fails", "")
    for record in (fake_cupy.launches, fake_cupy.devices, fake_cupy.loaded):
        record.clear()
    yield fake_cupy


def built(source: str, tmp_path: Path, **settings: Any) -> Compilation:
    """A compilation whose kernels, built for the host, are what the stand-in takes for a cubin's."""
    (c,) = compilations(source, Settings(runtime="cuda", config={"DEBUG": 1}, **settings))
    names = kernel_names(c.settings.prefix, c.program).values()
    source = fake_cupy.launchable(c.rendered.source, names)
    c.runtime.build(replace(c.rendered, source=source), c.target, "host", tmp_path / f"{c.name}.so", None, [])
    fake_cupy.library = str(tmp_path / f"{c.name}.so")
    return c


def device_library(c: Compilation, device: int = 0) -> DeviceLibrary:
    return DeviceLibrary(Path("kernels.cubin"), c.program, c.settings.prefix, device)


def test_a_call_copies_launches_and_copies_back(cupy: Any, tmp_path: Path) -> None:
    c = built(GEMM, tmp_path)
    rng = np.random.default_rng(7)
    a, b, d = (rng.standard_normal(s).astype(np.float32) for s in ((37, 5), (5, 21), (37, 21)))
    before = d.copy()
    assert device_library(c).call({"A": a, "B": b, "C": d}, {"M": 37, "K": 5, "N": 21}) == 0
    np.testing.assert_allclose(d, before + a @ b, rtol=1e-5, atol=1e-5)
    ((name, grid, threads, args),) = cupy.launches
    assert (name, grid, threads) == ("lm_gemm_0_3", (1, 1, 1), (128, 1, 1))  # one tile of 64 × 64
    assert [type(x).__name__ for x in args] == ["ndarray"] * 3 + ["int64"] * 3 and [int(x) for x in args[3:]] == [37, 5, 21]


@pytest.mark.parametrize("name", ["attention", "rotary", "standardize", "embedding", "softmax"])
def test_temporaries_and_several_kernels(name: str, cupy: Any, tmp_path: Path) -> None:
    from cuda_unit import inputs_of

    c = built(name, tmp_path)
    assert c.composite is not None
    sizes = {k: int(v) for k, v in c.composite.test.sizes[-1].items() if k in [s.name for s in c.elaborate().sizes]}
    check(device_library(c), c.elaborate(), sizes, inputs_of(c.elaborate(), sizes))  # pyright: ignore[reportArgumentType]
    launched = [launch[0] for launch in cupy.launches]
    elsewhere = [
        k for k in c.module.kernels if len(k.body) == 1 and isinstance(k.body[0], If) and not k.body[0].orelse
    ]  # for few and long rows alone
    assert len(launched) == len(c.module.kernels) - len(elsewhere)  # of each kernel the variant for these sizes
    assert set(launched) <= {f"lm_{f.name}" for f in c.program.functions}


def test_scalars_have_the_width_of_their_parameters(cupy: Any, tmp_path: Path) -> None:
    c = built("(composite scale ((X{T}[N] A{T}[] K{i32}[]) -> (Y{T}[N]))\n  (return (* X (+ A (cast T K)))))", tmp_path, dtype={"T": "f16"})
    x, y = np.arange(5, dtype=np.float16), np.zeros(5, np.float16)
    assert device_library(c).call({"X": x, "A": 0.5, "K": -2, "Y": y}, {"N": 5}) == 0
    np.testing.assert_array_equal(y, x * np.float16(-1.5))
    widths = {"f16": np.uint16(0x3800), "bf16": np.uint16(0x3F00), "f64": np.float64(0.5), "bool": np.uint8(1), "i8": np.int8(0)}
    for name, wanted in widths.items():
        found = by_value(DTYPES[name], 0.5)
        assert found == wanted and found.dtype == wanted.dtype


def test_an_index_out_of_range_is_told_once(cupy: Any, tmp_path: Path) -> None:
    c = built("embedding", tmp_path)
    library = device_library(c)
    w, i, y = np.ones((4, 3), np.float32), np.array([0, 9], np.int64), np.zeros((2, 3), np.float32)
    names = {p.role: p.name for p in c.program.ports}
    arrays = {p.name: {"W": w}.get(p.name, i if p.dtype.is_integer else y) for p in c.program.ports}
    assert library.call(arrays, {"V": 4, "D": 3, "N": 2}) == BAD_INDEX
    assert (arrays[names["out"]] == 0).all()  # nothing is copied back
    i[1] = 3
    assert library.call(arrays, {"V": 4, "D": 3, "N": 2}) == 0 and (y == 1).all()
    i[0] = -1
    assert library.bind(arrays, {"V": 4, "D": 3, "N": 2})() == BAD_INDEX


def test_the_entrys_checks_are_made(cupy: Any, tmp_path: Path) -> None:
    c = built(GEMM, tmp_path)
    entry = device_library(c)._entry
    pointer = fake_cupy.asarray(np.zeros(64, np.uint8))
    from luminal.runtimes.cuda.entry import Pointer

    def plan(a: int, b: int, d: int, **sizes: int) -> int:
        return entry.plan({"A": Pointer(a, pointer), "B": Pointer(b, pointer), "C": Pointer(d, pointer)}, {}, sizes)[0]

    assert plan(4096, 8192, 16384, M=2, K=2, N=2) == 0
    assert plan(0, 8192, 16384, M=2, K=2, N=2) == NULL_POINTER
    assert plan(0, 8192, 16384, M=2, K=0, N=2) == 0
    assert plan(4096, 8192, 8200, M=2, K=2, N=2) == OVERLAP
    assert entry.plan({n: Pointer(k << 20, pointer) for k, n in enumerate("ABC", 1)}, {}, {"M": 0, "K": 2, "N": 2}) == (
        0,
        [],
    )  # an empty grid is no launch


def test_a_grid_is_never_larger_than_a_launch_may_be(cupy: Any, tmp_path: Path) -> None:
    from luminal.runtimes.cuda.entry import Pointer

    c = built("(composite twice ((X{u8}[N]) -> (Y{u8}[N]))\n  (return (+ X X)))", tmp_path)
    entry = device_library(c)._entry
    count = 1 << 41
    _, (launch,) = entry.plan({"X": Pointer(1 << 50, None), "Y": Pointer(1 << 51, None)}, {}, {"N": count})
    assert launch.grid == (2**31 - 1, 1, 1) and launch.threads == (256, 1, 1) and int(launch.args[-1]) == count


def test_sizes_of_zero_divide_to_zero_as_in_what_is_emitted() -> None:
    from luminal.compiler import Settings, compilations
    from luminal.runtimes.cuda.entry import Entry, Pointer

    (c,) = compilations("quadratic_form", Settings(runtime="cuda", target="sm_90a"))
    pointers = {port.name: Pointer(k << 40, None) for k, port in enumerate(c.program.ports, 1)}
    code, _ = Entry(c.program, lambda _: Pointer(1 << 60, None), None).plan(pointers, {}, {"batch": 1, "N": 0})
    assert code == 0


def test_devices_by_number(cupy: Any, tmp_path: Path) -> None:
    c = built(GEMM, tmp_path)
    x = np.ones((1, 1), np.float32)
    sizes = {"M": 1, "K": 1, "N": 1}
    runtime = c.runtime
    assert (
        runtime.run_kind(None) == ("cubin", ".cubin")
        and runtime.run_kind("cuda:0") == ("cubin", ".cubin")
        and runtime.run_kind("host") == ("host", ".so")
    )
    kind, suffix = runtime.run_kind("cuda:1")
    assert (kind, suffix) == ("cubin.1", ".1.cubin")
    library = runtime.load(Path(f"kernels{suffix}"), c.program, c.target, "lm_")
    assert library.call({"A": x, "B": x, "C": x.copy()}, sizes) == 0 and cupy.devices == [1]
    assert library.time({"A": x, "B": x, "C": x.copy()}, sizes, 3) == [0.25e-3] * 3
    for wrong, error in (("cuda:2", DeviceError), ("gpu", UsageError), ("cuda:x", UsageError)):
        with pytest.raises(error, match=wrong):
            runtime.run_kind(wrong)


def test_errors_of_the_driver(cupy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c = built(GEMM, tmp_path)
    library = device_library(c)
    x = np.ones((1, 1), np.float32)
    monkeypatch.setattr(fake_cupy, "fails", "launch")
    assert library.call({"A": x, "B": x, "C": x.copy()}, {"M": 1, "K": 1, "N": 1}) == DEVICE_ERROR
    monkeypatch.setattr(fake_cupy, "fails", "RawModule")
    with pytest.raises(DeviceError, match="compute capability 80"):
        device_library(c)


def test_from_python_on_the_device(cupy: Any, tmp_path: Path) -> None:
    built(GEMM, tmp_path)
    gemm = luminal.compile(GEMM, runtime="cuda")
    a, b, c = (np.full(s, v, np.float32) for s, v in (((3, 4), 1), ((4, 5), 2), ((3, 5), 3)))
    for _ in range(2):
        given = c.copy()
        assert gemm(a, b, given) is given
        np.testing.assert_array_equal(given, np.full((3, 5), 11))
    (path,) = fake_cupy.loaded
    assert path.endswith(".cubin") and Path(path).read_bytes()[:4] == b"\x7fELF"
    with pytest.raises(ValueError, match=r"read-only|written"):
        frozen = c.copy()
        frozen.flags.writeable = False
        gemm(a, b, frozen)


def test_from_python_without_a_device(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "device_count", lambda: 0)
    monkeypatch.setattr(driver, "_WARNED", set())
    config = {"DEBUG": 1}
    add = luminal.compile("(composite add ((A{f32}[M N] B{f32}[M N]) -> (C{f32}[M N]))\n  (return (+ A B)))", runtime="cuda", config=config)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(add(a, a.T.copy().T), a * 2)
    np.testing.assert_array_equal(add(a, a[:, ::-1]), a + a[:, ::-1])
    assert capfd.readouterr().err.count("runs on the CPU under the host shim") == 1
    gemm = luminal.compile(GEMM, runtime="cuda", device="host", config=config)
    c = np.zeros((3, 3), np.float32)
    assert gemm(a, a.T, c) is c
    np.testing.assert_array_equal(c, a @ a.T)
    assert capfd.readouterr().err == ""
    with pytest.raises(DeviceError, match="no CUDA devices"):
        luminal.compile(GEMM, runtime="cuda", device="cuda:0", config=config)(a, a.T, c)
