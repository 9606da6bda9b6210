"""Composites whose operands do not simply lie along a vector, written as people write them: what the emitted code is made of, and beside float64 in NumPy what it gives, at sizes with tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import Check, Kernel, Let, Loop, Store, statements
from luminal.ir.program import StoreTo, statements as program_statements
from luminal.ir.walks import postorder
from luminal.passes.schedule.tree import walk_paths

pytestmark = pytest.mark.usefixtures("plain_c")

SEED = 21
V3 = "x86-64-v3"


class Form(NamedTuple):
    ports: str
    body: str
    reference: Callable[..., np.ndarray]
    sizes: dict[str, int]
    has: tuple[str, ...]  # what the notes or the steps of its kernels say
    never: str = "stays scalar"
    kernels: int = 1


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    m = x.max(axis)
    return np.log(np.exp(x - np.expand_dims(m, axis)).sum(axis)) + m


def laplacian(u: np.ndarray) -> np.ndarray:
    return sum(np.roll(u, s, a) for s in (1, -1) for a in (0, 1)) - 4 * u


def four_bits(w: np.ndarray, s: np.ndarray) -> np.ndarray:
    both = np.stack([(w & 15).astype(float), (w >> 4).astype(float)], -1).reshape(len(w), -1) - 8
    return both * np.repeat(s, 32, 1)


def by_32(x: np.ndarray, w: np.ndarray, s: np.ndarray) -> np.ndarray:
    return x @ (w * np.repeat(s, 32, 1) * 0.001).T


def paged(q: np.ndarray, k: np.ndarray, v: np.ndarray, i: np.ndarray) -> np.ndarray:
    k, v = (x[i].reshape(-1, *x.shape[2:]) for x in (k, v))
    return np.einsum("hp,phd->hd", softmax(np.einsum("hd,phd->hp", q, k)), v)


def grouped(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = np.einsum("bihgd,bjhd->bhgij", q, k)
    s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    return np.einsum("bhgij,bjhd->bihgd", softmax(s), v)


NIBBLES = "(setf lo (- (cast f32 (logand W 15)) 8)) (setf hi (- (cast f32 (ash W -4)) 8)) (setf w (reshape (* (reshape (stack lo hi :axis 2) N (floordiv K 32) 32) (unsqueeze S :axis 2)) N K))"
PACKED = "W{u8}[N (floordiv K 2)] S{f32}[N (floordiv K 32)]"
BY_32 = "(reshape (* (unsqueeze S :axis 2) (* 0.001 (reshape (cast f32 W) N (floordiv K 32) 32))) N K)"
FORMS: dict[str, Form] = {
    "rolled": Form(
        "U{f32}[N M] -> V{f32}[N M]", "(return (- (+ (roll U 1 :axis 0) (roll U -1 :axis 0) (roll U 1 :axis 1) (roll U -1 :axis 1)) (* 4 U)))", laplacian, {"N": 5, "M": 67},
        ("vectors of 8 along `j1`", "vectors of 8 along `j31`"),
    ),
    "statistics of columns, less a number a row": Form(
        "C{f32}[N M] U{f32}[N] -> Y{f32}[M]", "(return (logsumexp (- (unsqueeze U :axis 1) C) :axis 0))", lambda c, u: logsumexp(u[:, None] - c, 0), {"N": 41, "M": 77},
        ("no cascade: the axis lies across memory", "along the kept axis"), kernels=4,
    ),
    "statistics of columns, less what rows have come to": Form(
        "C{f32}[N M] -> Y{f32}[M]", "(return (logsumexp (- (unsqueeze (logsumexp C :axis 1) :axis 1) C) :axis 0))", lambda c: logsumexp(logsumexp(c, 1)[:, None] - c, 0), {"N": 41, "M": 77},
        ("no cascade: the axis lies across memory", "along the kept axis"), kernels=5,
    ),
    "statistics of columns of a product": Form(
        "A{f32}[N K] B{f32}[M K] -> Y{f32}[M]", "(setf s (matmul A (transpose B))) (return (+ (logsumexp s :axis 0) (* 0 (sum (logsumexp s :axis 1)))))",
        lambda a, b: logsumexp(a @ b.T, 0), {"N": 41, "M": 77, "K": 19}, ("2 reductions over one axis in one pass", "along the kept axis"), kernels=4,
    ),
    "a sum of what columns add up to": Form(
        "X{f32}[N M] -> Y{f32}[]", "(return (sum (abs (sum X :axis 0))))", lambda x: np.abs(x.sum(0)).sum(), {"N": 41, "M": 77}, ("rows are read 1024 columns at a time",), kernels=3,
    ),
    "a matrix for each row": Form(
        "X{f32}[B D] W{f32}[E D F] I{i32}[B] -> Y{f32}[B F]", '(return (einsum "bd,bdf->bf" X (gather W I :axis 0)))', lambda x, w, i: np.einsum("bd,bdf->bf", x, w[i]),
        {"B": 3, "D": 19, "E": 5, "F": 77}, ("along the kept axis `j`",),
    ),
    "pages of a cache": Form(
        "Q{f32}[H D] K{f32}[E S H D] V{f32}[E S H D] I{i32}[P] -> O{f32}[H D]",
        '(setf k (gather K I :axis 0)) (setf v (gather V I :axis 0)) (setf p (reshape (softmax (reshape (einsum "hd,pshd->hps" Q k) H (* P S))) H P S)) (return (einsum "hps,pshd->hd" p v))',
        paged, {"H": 2, "D": 19, "E": 5, "S": 11, "P": 7}, ("along the kept axis",), kernels=5,
    ),
    "four bits, by a vector": Form(
        f"x{{f32}}[K] {PACKED} -> y{{f32}}[N]", f"{NIBBLES} (return (matmul w x))", lambda x, w, s: four_bits(w, s) @ x, {"N": 7, "K": 96}, ("accumulate along `p`",),
    ),
    "four bits": Form(f"{PACKED} -> Y{{f32}}[N K]", f"{NIBBLES} (return w)", four_bits, {"N": 7, "K": 96}, ("vectors of 8 along `j`",)),
    "pixels shuffled": Form(
        "X{f32}[C 2 2 H W] -> Y{f32}[C (* 2 H) (* 2 W)]", "(return (reshape (transpose X 0 3 1 4 2) C (* 2 H) (* 2 W)))",
        lambda x: x.transpose(0, 3, 1, 4, 2).reshape(x.shape[0], 2 * x.shape[3], 2 * x.shape[4]), {"C": 2, "H": 3, "W": 37}, ("vectors of 8 along `k`",),
    ),
    "each element twice": Form("X{f32}[N M] -> Y{f32}[N (* 2 M)]", "(return (reshape (stack X X :axis 2) N (* 2 M)))", lambda x: np.repeat(x, 2, 1), {"N": 3, "M": 37}, ("vectors of 8 along `j`",)),
    "groups of queries, causal": Form(
        "Q{f32}[B N H G D] K{f32}[B N H D] V{f32}[B N H D] -> O{f32}[B N H G D]",
        '(setf s (einsum "bihgd,bjhd->bhgij" Q K)) (setf s (where (>= (unsqueeze (iota N) :axis 1) (iota N)) s -inf)) (return (einsum "bhgij,bjhd->bihgd" (softmax s) V))',
        grouped, {"B": 2, "N": 141, "H": 2, "G": 3, "D": 19}, ("blocks of 8 rows share each tile", "register tiles of 6×16"), never="not cascade",
    ),
    "few rows by a matrix that is turned over": Form(
        "X{f32}[M K] W{f32}[N K] -> Y{f32}[M N]", "(return (matmul X (transpose W)))", lambda x, w: x @ w.T, {"M": 7, "K": 1050, "N": 23},
        ("where `M <= 8`, few rows: columns are read along the reduction as they lie", "where `M <= 16`, few rows"), never="alone: ",
    ),
    "some rows by matrices that are turned over": Form(
        "X{f32}[B M K] W{f32}[B N K] -> Y{f32}[B M N]", "(return (matmul X (transpose W 0 2 1)))", lambda x, w: x @ w.swapaxes(1, 2), {"B": 2, "M": 13, "K": 1050, "N": 23},
        ("where `M <= 8`, few rows", "where `M <= 16`, few rows"), never="alone: ",
    ),
    "bytes and a scale for each of their rows": Form(
        "X{f32}[M K] W{u8}[N K] S{f32}[N] -> Y{f32}[M N]", "(return (matmul X (transpose (* (unsqueeze S :axis 1) (* 0.001 (cast f32 W))))))", lambda x, w, s: x @ (w * s[:, None] * 0.001).T,
        {"M": 7, "K": 1056, "N": 23}, ("where `M <= 8`, few rows: columns are read along the reduction as they lie", "where `M <= 16`, few rows"), never="alone: ",
    ),
    "bytes and a scale for each 32": Form(
        "X{f32}[M K] W{u8}[N K] S{f32}[N (floordiv K 32)] -> Y{f32}[M N]", f"(return (matmul X (transpose {BY_32})))", by_32,
        {"M": 7, "K": 1056, "N": 23}, ("where `M <= 8`, few rows: columns are read along the reduction as they lie", "where `M <= 16`, few rows"), never="alone: ",
    ),
    "bytes and a scale for each 32, packed": Form(
        "X{f32}[M K] W{u8}[N K] S{f32}[N (floordiv K 32)] -> Y{f32}[M N]", f"(return (matmul X (transpose {BY_32})))", by_32,
        {"M": 141, "K": 1056, "N": 71}, ("packed panels and a register tile",), never="not turned over",
    ),
    "two tensors in turn": Form(
        "A{f32}[N M] B{f32}[N M] -> Y", "(return (reshape (stack A (* 2 B) :axis 2) N (* 2 M)))", lambda a, b: np.stack([a, 2 * b], 2).reshape(len(a), -1),
        {"N": 5, "M": 37}, ("vectors of 8 along `j`",),
    ),
    "a mean between neighbours": Form(
        "X{f32}[N 41] -> Y", "(setf r (concat (slice X _ (1 _)) (slice X _ (-1 _)) :axis 1)) (return (reshape (stack X (* 0.5 (+ X r)) :axis 2) N 82))",
        lambda x: np.stack([x, (x + np.concatenate([x[:, 1:], x[:, -1:]], 1)) / 2], 2).reshape(len(x), -1), {"N": 5}, ("vectors of 8 along `j`",),
    ),
    "windows of running sums": Form(
        "X{f32}[A 37 M] -> Y", "(setf c (cumsum X :axis 1)) (return (- (slice c _ (4 _) _) (slice c _ (0 -4) _)))",
        lambda x: x.cumsum(1)[:, 4:] - x.cumsum(1)[:, :-4], {"A": 3, "N": 37, "M": 77}, ("along the kept axis `j`, the reduction outside of them",),
    ),
}  # fmt: skip


def text_of(name: str) -> str:
    ports, result = FORMS[name].ports.split(" -> ")
    return f"(composite form (({ports}) -> ({result})) {FORMS[name].body})"


def kernels_of(name: str) -> tuple[Kernel, ...]:
    (found,) = compilations(text_of(name), Settings(runtime="clang", target=V3))
    return found.module.kernels


@pytest.mark.parametrize("name", FORMS)
def test_vectors(name: str) -> None:
    form, kernels = FORMS[name], kernels_of(name)
    said = [line for k in kernels for line in k.notes]
    assert len(kernels) == form.kernels
    for words in form.has:
        assert any(words in line for line in said), said
    assert not any(form.never in line for line in said), said


@pytest.mark.parametrize("name", ["two tensors in turn", "a mean between neighbours"])
def test_every_other_position_is_chosen_in_vectors(name: str) -> None:
    """Not lane by lane, for want of a form in which only every other lane reads."""
    (found,) = compilations(text_of(name), Settings(runtime="clang", target=V3))
    stores = [s for f in found.program.functions for s in program_statements(f.body) if isinstance(s, StoreTo)]
    assert any(s.value.dtype.lanes == 8 and any(n.op == "where" for n in postorder(s.value)) for s in stores)


def test_rows_of_two_tensors_in_turn_are_read_where_they_are_wanted() -> None:
    """A choice that is the same all along a vector stays one: nothing is read for nothing."""
    text = "(composite rows ((A{f32}[N M] B{f32}[N M]) -> Y) (return (reshape (stack A B :axis 1) (* 2 N) M)))"
    (found,) = compilations(text, Settings(runtime="clang", target=V3))
    assert not any(isinstance(s, Let) for k in found.module.kernels for s in statements(k.body))


def test_checks_stand_before_the_loops_that_do_not_decide_them() -> None:
    """A page is looked at once, not for every head; by vectors."""
    *looking, scores, _, results = sorted(kernels_of("pages of a cache"), key=lambda k: "positions" not in k.name)
    assert len(looking) == 2 and not any(isinstance(s, Check) for k in (scores, results) for s in statements(k.body))
    for k in looking:
        assert any(isinstance(s, Check) for s in k.body), "after the loop"
        assert any(isinstance(s, Loop) and s.kind == "vector" for s in statements(k.body))


@needs_cc
@pytest.mark.parametrize("name", FORMS)
def test_meaning(name: str) -> None:
    form, rng = FORMS[name], np.random.default_rng(SEED)
    print(f"seed {SEED}")
    function = luminal.compile(text_of(name))
    inputs: list[np.ndarray] = []
    for port in form.ports.split(" -> ")[0].replace("(floordiv K 2)", "K/2").replace("(floordiv K 32)", "K/32").split("] "):
        head, shape = port.rstrip("]").split("[")
        name_of, dtype = head.rstrip("}").split("{")
        extents = [eval(s.replace("/", "//"), dict(form.sizes)) for s in shape.split()]
        values = rng.standard_normal(extents) if dtype == "f32" else rng.integers(0, form.sizes["E"] if name_of == "I" else 256, extents)
        inputs.append(values.astype({"f32": np.float32, "i32": np.int32, "u8": np.uint8}[dtype]))
    sizes = {"K": form.sizes["K"]} if name == "four bits" else {}
    expected = form.reference(*(x.astype(float) if x.dtype == np.float32 else x for x in inputs))
    np.testing.assert_allclose(function(*inputs, **sizes), expected, rtol=1e-4, atol=1e-4)


def test_panels_of_bytes_and_scales_are_turned_over_in_registers() -> None:
    """A scale is the same for all lanes of a vector: so the bytes are loaded along the reduction, and squares of them turned over."""
    (kernel,) = kernels_of("bytes and a scale for each 32, packed")
    packing = [outer for s, outer in walk_paths(kernel.body) if isinstance(s, Store) and s.buffer.startswith("S.packed")]
    assert len(packing) > 1 and any([x.kind for x in outer if isinstance(x, Loop)][-2:] == ["unroll", "vector"] for outer in packing)


@needs_cc
def test_a_position_outside_is_an_error() -> None:
    function = luminal.compile(text_of("pages of a cache"))
    rng = np.random.default_rng(SEED)
    q, k = rng.standard_normal((2, 3)).astype("f"), rng.standard_normal((5, 4, 2, 3)).astype("f")
    for bad in (-1, 5):
        with pytest.raises(ValueError, match="out of range"):
            function(q, k, k, np.array([0, 4, bad], "i4"))
    assert function(q[:0], k[:, :, :0], k[:, :, :0], np.array([0, 9], "i4")).shape == (0, 3), "nothing is read"
