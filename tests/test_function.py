"""`luminal.compile` from Python: arrays in, arrays out, and what is said of wrong ones."""

from __future__ import annotations

import itertools
import subprocess
import sys
import timeit
from pathlib import Path
from typing import Any

import luminal
import ml_dtypes
import numpy as np
import pytest
from compilers import HAS_CC, needs_cc
from luminal import exchange
from luminal.ir.dtypes import DTYPES, numpy_dtype

pytestmark = pytest.mark.usefixtures("plain_c")

ROOT = Path(__file__).parent.parent
ADD = "(composite add ((A{T}[M N] B{T}[M N]) -> (C{T}[M N])) (return (+ A B)))"
RUNTIMES = ["reference", *(["clang", "cuda"] if HAS_CC else [])]


def normal(*shape: int, dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_outputs_are_allocated_or_given(runtime: str) -> None:
    add = luminal.compile(ADD, runtime=runtime, device=None if runtime != "cuda" else "host")
    a, b = normal(5, 7), normal(5, 7, seed=1)
    np.testing.assert_array_equal(add(a, b), a + b)
    np.testing.assert_array_equal(add(a, B=b), a + b)
    out = np.empty_like(a)
    assert add(a, b, C=out) is out
    np.testing.assert_array_equal(out, a + b)
    np.testing.assert_array_equal(add(a, b), a + b)  # the repeat call, by its plan
    np.testing.assert_array_equal(add(a[:3], b[:3]), a[:3] + b[:3])  # other sizes, same library
    assert add(a[:0], b[:0]).shape == (0, 7)
    assert add(a[:, :0], b[:, :0], C=np.empty((5, 7), np.float32)[:, :0]).shape == (5, 0)


@needs_cc
def test_a_path_a_library_name_and_dtypes() -> None:
    gemm = luminal.compile(ROOT / "samples" / "gemm.toml")
    a, b, c = normal(4, 6), normal(6, 5), normal(4, 5)
    expected = c.astype(np.float64) + a.astype(np.float64) @ b
    assert gemm(a, b, c) is c  # updated in place, and returned
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-6)
    softmax = luminal.compile("softmax", dtype={"T": "f64"})
    x = normal(3, 11, dtype=np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(softmax(x), e / e.sum(-1, keepdims=True), rtol=1e-14)
    half = luminal.compile(ADD, dtype={"T": "bf16"})
    y = normal(3, 4).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(half(y, y), y + y)


@needs_cc
def test_layouts() -> None:
    column = luminal.compile("(composite t ((A{f32}[M N]<1 0>) -> (B{f32}[M N])) (return (* A 2.0)))")
    a = normal(4, 6)
    np.testing.assert_array_equal(column(np.asfortranarray(a)), a * 2)
    np.testing.assert_array_equal(column(a), a * 2)  # copied into the port's layout
    np.testing.assert_array_equal(column(normal(8, 6)[::2]), normal(8, 6)[::2] * 2)
    strided = luminal.compile("(composite s ((A{f32}[M N]<0 1 :strided>) -> (B{f32}[M N])) (return (+ A 1.0)))")
    wide = normal(4, 9)
    np.testing.assert_array_equal(strided(wide[:, :6]), wide[:, :6] + 1)


@needs_cc
def test_an_input_that_a_leading_stride_cannot_describe_is_copied() -> None:
    """Backwards, transposed, the same row again and again, gaps within rows; what is written in place is refused then."""
    sums = luminal.compile(
        "(composite s ((A{f32}[M N]<0 1 :strided> x{f32}[K]<0 :strided>) -> (Y{f32}[N] z{f32}[])) (return (sum A :axis 0) (sum x)))"
    )
    a = normal(6, 10)
    for part in (a[::-1], a.T, np.broadcast_to(a[0], (4, 10)), a[:, ::2], a[:, ::-1], a[:0], a[:, :0], a[:1].T):
        for vector in (a[0, ::-1], np.broadcast_to(a[0, 0], (5,))):
            y, z = sums(part, vector)
            np.testing.assert_allclose(y, part.sum(0), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(z, vector.sum(), rtol=1e-5, atol=1e-6)
    double = luminal.compile("(composite d ((A{f32}[M N]<0 1 :strided>) -> (A)) (return (* 2 A)))")
    for part in (a.T, a[::-1], a[:, ::2]):
        with pytest.raises(ValueError, match="port A: it is written, and its memory layout must be the port's own"):
            double(part)


@needs_cc
def test_strided_outputs() -> None:
    """An output of its own takes its leading stride at run time; one that the call makes has no gaps."""
    product = luminal.compile(
        "(composite p ((A{f32}[M K] B{f32}[K N]) -> (Y{f32}[M N]<0 1 :strided> s{f32}[M]<0 :strided>)) (setf Y (matmul A B)) (setf s (sum A :axis 1)))"
    )
    a, b = normal(5, 6), normal(6, 7)
    y, s = product(a, b)
    assert y.strides == (28, 4) and s.strides == (4,)
    whole, sums = np.full((9, 12), 7, np.float32), np.full(15, 7, np.float32)
    product(a, b, Y=whole[2:7, 3:10], s=sums[1::3])
    np.testing.assert_allclose(whole[2:7, 3:10], a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sums[1::3], a.sum(1), rtol=1e-4, atol=1e-5)
    whole[2:7, 3:10], sums[1::3] = 7, 7
    assert (whole == 7).all() and (sums == 7).all()


@needs_cc
def test_scalars_and_several_outputs() -> None:
    axpy = luminal.compile("(composite axpy ((a{f32}[] X{f32}[N] Y{f32}[N]) -> Y) (return (+ Y (* a X))))")
    x, y = normal(9), normal(9, seed=1)
    expected = y + np.float32(2.5) * x
    np.testing.assert_allclose(axpy(2.5, x, y), expected, rtol=1e-6)
    both = luminal.compile("(composite both ((X{f32}[N]) -> (A{f32}[N] B{f32}[N])) (return (+ X 1.0) (* X 2.0)))")
    plus, times = both(x)
    np.testing.assert_array_equal(plus, x + 1)
    np.testing.assert_array_equal(times, x * 2)


class Foreign:
    """An array of another library: only the protocol; `kind`: the code of the dtype that it says it has; `versions`: whether it knows of versions of the protocol."""

    def __init__(self, array: np.ndarray, kind: int | None = None, versions: bool = True) -> None:
        self.array, self.kind, self.versions = array, kind, versions

    def __dlpack__(self, **options: Any) -> object:
        if not self.versions and "max_version" in options:
            raise TypeError("max_version")
        capsule = self.array.__dlpack__(**options)
        if self.kind is not None:
            exchange._kind(capsule).code = self.kind
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@needs_cc
def test_dlpack() -> None:
    a = normal(2, 3)
    np.testing.assert_array_equal(luminal.compile(ADD)(Foreign(a), a), a + a)


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize(("dtype", "code"), [("bf16", 4), ("f8e4m3", 10), ("f8e5m2", 12)])
def test_small_floats_of_other_libraries_are_taken_where_they_lie(dtype: str, code: int, versions: bool) -> None:
    kind = numpy_dtype(DTYPES[dtype])
    whole = np.arange(-8, 8).astype(kind).reshape(2, 8)
    part = whole[:, ::2]
    found = exchange.taken(Foreign(part.view(f"u{kind.itemsize}"), code, versions))
    assert found.dtype == kind and found.strides == part.strides and found.ctypes.data == part.ctypes.data
    np.testing.assert_array_equal(found.astype(np.float32), part.astype(np.float32))
    whole[...] = 1
    assert (found == 1).all()
    assert found.flags.writeable is versions  # a producer from before there were versions cannot say


@needs_cc
def test_bf16_of_another_library_is_computed_with_and_written_to() -> None:
    kind = numpy_dtype(DTYPES["bf16"])
    double = luminal.compile("(composite f ((A{bf16}[N]) -> (A)) (return (* 2 A)))", runtime="reference")
    for _ in range(2):
        a = np.arange(5).astype(kind)
        double(Foreign(a.view("u2"), 4))
        np.testing.assert_array_equal(a.astype(np.float32), 2 * np.arange(5))


def test_what_cannot_be_taken_is_named() -> None:
    add = luminal.compile(ADD, runtime="reference")
    with pytest.raises(TypeError, match=r"port A: this Foreign cannot be taken without a copy: "):
        add(Foreign(normal(3, 4), 3), normal(3, 4))  # an opaque handle
    with pytest.raises(TypeError, match="port A: expected dtype f32, found bfloat16"):
        add(Foreign(np.zeros((2, 3), "u2"), 4), normal(2, 3))


@needs_cc
def test_a_tensor_of_torch() -> None:
    torch = pytest.importorskip("torch")
    add = luminal.compile(ADD, dtype={"T": "bf16"})
    a, b = (torch.tensor(normal(3, 4, seed=s)).bfloat16() for s in (1, 2))
    for _ in range(2):
        np.testing.assert_array_equal(add(a, b).astype(np.float32), (a + b).float().numpy())
    with pytest.raises(TypeError, match="port A: "):
        add(a.requires_grad_(), b)


@needs_cc
def test_arrays_bind_what_nothing_else_did() -> None:
    """A type variable is what the arrays of all its ports are, for each call by itself."""
    product = luminal.compile("matmul")
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    for _ in range(2):  # the second time by the plan of the first
        for dtype in (np.float64, np.float32, np.int32, np.uint8):
            found = product(a.astype(dtype), b.astype(dtype))
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, (a @ b).astype(dtype))
    with pytest.raises(TypeError, match="port A: expected dtype f32, found float64"):
        product(a.astype(np.float64), b.astype(np.float32))
    with pytest.raises(TypeError, match="port A: expected dtype f32, found float64"):
        luminal.compile("matmul", dtype={"T": "f32"})(a.astype(np.float64), b.astype(np.float64))
    optional = luminal.compile("(composite f ((X{T}[N] B{T}[N]?) -> (Y{T}[N])) (return (if (given B) (+ X B) (exp X))))", runtime="reference")
    assert optional(np.zeros(3)).dtype == np.float64
    assert optional(np.ones(3, np.int32), np.ones(3, np.int32)).dtype == np.int32
    with pytest.raises(TypeError, match="port X: expected dtype f32, found int32"):  # no exp of integers
        optional(np.ones(3, np.int32))


@needs_cc
def test_axes_are_counted_as_the_caller_does() -> None:
    with pytest.raises(ValueError, match=r"axis 0 of port B has 4 elements, expected K = 3 \(from axis 1 of A\)"):
        luminal.compile("matmul")(normal(2, 3), normal(4, 5))


def test_options_that_are_dictionaries() -> None:
    with pytest.raises(luminal.UsageError, match=r"dtype='f32': expected a dictionary, as \{'T': 'f16'\}"):
        luminal.compile("softmax", dtype="f32")  # pyright: ignore[reportArgumentType]


@needs_cc
@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((np.zeros((2, 3)), np.zeros((2, 3), np.float32)), TypeError, "port A: expected dtype f32, found float64"),
        ((np.zeros(3, np.float32), np.zeros((2, 3), np.float32)), ValueError, "port A: expected rank 2, found 1"),
        ((np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)), ValueError, "axis 1 of port B has 4 elements"),
        ((np.zeros((2, 3), np.float32),), TypeError, "missing B"),
        ((1, 2, 3), TypeError, "takes 2 arguments"),
        (([[1.0]], [[2.0]]), TypeError, "port A: expected an array, found list"),
    ],
)
def test_wrong_arrays_are_named(arguments: tuple[object, ...], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        luminal.compile(ADD)(*arguments)


@needs_cc
def test_written_arrays_are_never_copied() -> None:
    gemm = luminal.compile(ROOT / "samples" / "gemm.toml")
    a, b = normal(4, 4), normal(4, 4)
    with pytest.raises(ValueError, match="port C"):
        gemm(a, b, np.asfortranarray(normal(4, 4)))
    frozen = normal(4, 4)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="port C: it is written, and the array is read-only"):
        gemm(a, b, frozen)
    with pytest.raises(ValueError, match="overlap"):
        gemm(a, b, a)


def test_errors_are_the_packages_own() -> None:
    with pytest.raises(luminal.SourceError, match="E0"):
        luminal.compile("(composite x ((A{f32}[N]) -> (B{f32}[N])) (return (nothing A)))")(normal(3))
    with pytest.raises(luminal.UsageError, match=r"(?i)no such file"):
        luminal.compile("no/such/file.toml")


@needs_cc
def test_save_writes_what_the_command_line_does(tmp_path: Path) -> None:
    add = luminal.compile(ADD)
    assert sorted(p.name for p in add.save(tmp_path)) == ["add.c", "add.h", "libadd.so"]
    assert (tmp_path / "add.c").read_text() == add.source
    assert add.save(tmp_path / "only.h") == [tmp_path / "only.h"]


@needs_cc
def test_a_repeat_call_is_cheap(record_property: object) -> None:
    """Reported, not judged: timings live in bench/.  What is judged is that a repeat call takes the planned road."""
    add = luminal.compile(ADD)
    a, b = normal(2, 2), normal(2, 2)
    add(a, b)
    assert len(add._plans) == 1
    seconds = min(timeit.repeat(lambda: add(a, b), number=1000, repeat=3)) / 1000
    call = add.bound(a, b)
    bare = min(timeit.repeat(call, number=1000, repeat=3)) / 1000
    print(f"a repeat call: {seconds * 1e6:.2f} µs, the C call through ctypes: {bare * 1e6:.2f} µs")
    assert add(a, b) is not add(a, b)


@needs_cc
def test_any_number_of_leading_axes() -> None:
    matmul = luminal.compile("matmul")
    for a, b in (
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((2, 5, 2, 3), (2, 5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 1, 2, 3), (5, 3, 4)),
        ((0, 2, 3), (0, 3, 4)),
    ):
        x, y = normal(*a), normal(*b, seed=1)
        np.testing.assert_allclose(matmul(x, y), x @ y, rtol=1e-5, atol=1e-6)
    x, out = normal(2, 3, 7), np.zeros((2, 3, 7), np.float32)
    assert luminal.compile("relu")(x, Y=out) is out
    np.testing.assert_array_equal(out, np.maximum(x, 0))
    with pytest.raises(ValueError, match="do not broadcast"):
        matmul(normal(2, 2, 3), normal(3, 3, 4))
    with pytest.raises(ValueError, match="port A: expected rank 2 or more, found 1"):
        matmul(normal(3), normal(3, 4))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_sizes_that_cannot_be(runtime: str) -> None:
    """What a callee's `where` says of the caller's sizes, and extents that no memory has, are told in Python before or by the function."""
    text = "(composite even ((A{f32}[N](where N % 2 = 0)) -> Y) (return A)) (composite f ((A{f32}[N]) -> Y) (return (even A)))"
    device = "host" if runtime == "cuda" else None
    inherited = luminal.compile(text, runtime=runtime, device=device)
    assert inherited(normal(4)).shape == (4,)
    with pytest.raises(ValueError, match="a precondition on the sizes does not hold"):
        inherited(normal(3))
    large = luminal.compile(
        "(composite f ((A{f32}[N]) -> (Y{f32}[(* N N N N N N)])) (return (full (* N N N N N N) 0.5)))", runtime=runtime, device=device
    )
    assert large(normal(2)).shape == (64,)
    with pytest.raises(ValueError, match=r"port Y: an array of shape .* cannot be made"):
        large(normal(5000))


@pytest.mark.parametrize("runtime", [r for r in RUNTIMES if r != "cuda"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_strided_in_every_order(order: tuple[int, ...], runtime: str) -> None:
    """The two leading strides are the array's own: nothing is copied, nothing between the elements is touched."""
    words = " ".join(map(str, order))
    double = luminal.compile(f"(composite f ((A{{f32}}[L M N]<{words} :strided>) -> (A)) (return (* 2 A)))", runtime=runtime)
    whole = normal(5, 6, 7)
    before = whole.copy()
    part = whole.transpose(np.argsort(order))  # axis order[k] of the port is axis k in memory
    view = part[tuple(slice(0, n - 1) if order.index(k) < 2 else slice(None) for k, n in enumerate(part.shape))]
    expected = whole.copy()
    expected[:4, :5] *= 2
    assert double(view) is view
    np.testing.assert_array_equal(whole, expected)
    assert not np.array_equal(whole, before)


@needs_cc
def test_repeat_calls_by_name_and_with_leading_axes_go_by_their_plan() -> None:
    """Each call below is made three times with new data: the second and third find what the first left."""
    scale = luminal.compile("(composite s ((X{f32}[~ N] w{f32}[N]) -> (Y{f32}[~ N])) (return (* X w)))")
    shared = luminal.compile(ADD, dtype={"T": "f32"})
    for seed in range(3):
        x, w = normal(2, 3, 5, seed=seed), normal(5, seed=seed + 10)
        np.testing.assert_array_equal(scale(x, w), x * w)
        np.testing.assert_array_equal(scale(w=w, X=x), x * w)
        np.testing.assert_array_equal(scale(x[:, ::2], w), x[:, ::2] * w)  # not one axis in memory: copied each time
        out = np.full((2, 3, 5), 7, np.float32)
        assert scale(x, w, Y=out) is out
        np.testing.assert_array_equal(out, x * w)
        np.testing.assert_array_equal(scale(x[0, 0], w), x[0, 0] * w)
        a, b = normal(4, 6, seed=seed), normal(4, 6, seed=seed + 20)
        np.testing.assert_array_equal(shared(a, B=b), a + b)
        np.testing.assert_array_equal(shared(B=a, A=b), a + b)
        out.flags.writeable = False
        with pytest.raises(ValueError, match="port Y: "):
            scale(x, w, Y=out)
    assert len(scale._plans) >= 4


@needs_cc
def test_a_size_that_is_a_keyword_is_part_of_the_plan() -> None:
    fold = luminal.compile("(composite r ((X{f32}[(* M N)]) -> (Y{f32}[M N])) (return (reshape X M N)))")
    x = normal(24)
    for n in (3, 4, 3, 4, 6):
        np.testing.assert_array_equal(fold(x, N=n, M=24 // n), x.reshape(24 // n, n))


THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from luminal.compiler import Settings, compilations

sys.setswitchinterval(1e-6)
NAMES = ("softmax", "logsumexp", "rms_norm", "gelu")
seen = []


def source(name):
    (found,) = compilations(name, Settings(runtime="clang", target="x86-64-v3"), observer=lambda step: seen.append(name))
    return found.rendered.source


alone = [source(name) for name in NAMES]
seen.clear()
with ThreadPoolExecutor(4) as pool:
    assert list(pool.map(source, NAMES)) == alone
passes = [name for k, name in enumerate(seen) if k == 0 or seen[k - 1] != name]
assert len(passes) <= 3 * len(NAMES), passes  # elaborated, rewritten, rendered: none in the midst of another's
"""


def test_threads_compile_one_after_the_other() -> None:
    """Equal nodes are one: two threads in the passes at once would make two of one, and other text."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


NUMBERS = "(composite s ((X{i64}[N] k{i64}[] u{u8}[] b{bool}[] h{f16}[] z{c64}[]) -> (Y{i64}[N] o{u8}[] p{bool}[] q{f16}[] r{c64}[])) (return (+ k X) (+ 0 u) (and b t) (+ 0.0 h) (+ 0.0 z)))"
NO_NUMBERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"k": 2.5}, TypeError, "port k: expected an integer, found float"), ({"k": "7"}, TypeError, "port k: expected an integer"), ({"k": np.float32(5)}, TypeError, "port k"),
    ({"k": 2**70}, ValueError, "is no i64"), ({"k": np.array([5])}, TypeError, "port k"), ({"u": 256}, ValueError, "port u: 256 is no u8"),
    ({"u": -1}, ValueError, "port u: -1 is no u8"), ({"b": 2}, ValueError, "port b: 2 is no bool"), ({"b": 0.5}, TypeError, "port b"), ({"h": "1.5"}, TypeError, "port h: expected a number"),
    ({"h": None}, TypeError, "port h: expected a number"), ({"h": 1j}, TypeError, "port h"), ({"z": "1j"}, TypeError, "port z: expected a number"),
]  # fmt: skip


@pytest.mark.parametrize("runtime", [r for r in RUNTIMES if r != "cuda"])
def test_a_scalar_is_no_other_number_than_was_given(runtime: str) -> None:
    """Neither in the first call nor in repeat calls, which find its plan."""
    numbers = luminal.compile(NUMBERS, runtime=runtime)
    given: dict[str, Any] = {"X": np.zeros(1, np.int64), "k": 1, "u": 2, "b": True, "h": 1.5, "z": 1j}
    for _ in range(2):
        for other, kind, said in NO_NUMBERS:
            with pytest.raises(kind, match=said):
                numbers(**given | other)
        assert [v.tolist() for v in numbers(**given)] == [[1], 2, True, 1.5, 1j]
        same = {"k": np.array(1), "u": np.uint8(2), "b": np.True_, "h": np.float64(1.5), "z": np.complex64(1j)}
        assert [v.tolist() for v in numbers(**given | same)] == [[1], 2, True, 1.5, 1j]
    with pytest.raises(luminal.UsageError, match="O=7"):
        luminal.compile(NUMBERS, O=7)
