"""Scores that are mixed of others, and scores that cascades of both directions read: no tensor of rows by columns."""

import luminal
import numpy as np
import pytest
from cascades import PLACES, after, before, check_one_pass, nests
from compilers import needs_cc
from luminal.ir.expr import size
from luminal.ir.kernel import Loop, Module, statements
from small_attention import agrees, offer, small

pytestmark = pytest.mark.usefixtures("plain_c")

QKV = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
SCORES = '(setf s (* (einsum "hid,hjd->hij" Q K) (rsqrt D)))'
TIMES_V = '(return (einsum "hij,hje->hie" p V))'


def mixed(before: str = "s", after: str = "p", more: str = "A{f32}[H H]") -> str:
    """Attention of heads of which `before` makes scores, and `after` weights."""
    return f"(({QKV} {more}) -> (O{{f32}}[H N E])) {PLACES} {SCORES} (setf s {before}) (setf p (softmax s :axis -1)) (setf p {after}) {TIMES_V}"


BEFORE, AFTER = '(einsum "gh,hij->gij" A s)', '(einsum "gh,hij->gij" W p)'
MIXED: dict[str, tuple[str, int]] = {
    "before": (mixed(BEFORE), 1),
    "before, masked": (mixed(f"(where (<= j i) {BEFORE} -inf)"), 1),
    "before, biased": (mixed(f"(+ B {BEFORE})", more="A{f32}[H H] B{f32}[N M]"), 1),  # by rows of -inf, and by huge numbers
    "before, with the scores themselves": (mixed(f"(+ s {BEFORE})"), 1),
    "masked, before": (mixed('(einsum "gh,hij->gij" A (* (tanh s) (cast f32 (<= j i))))'), 1),
    "before, one matrix of values": (mixed(BEFORE).replace("V{f32}[H M E]", "V{f32}[M E]").replace("hij,hje", "hij,je"), 1),
    "after": (mixed(after=AFTER, more="W{f32}[H H]"), 2),
    "before and after": (mixed(BEFORE, AFTER, "A{f32}[H H] W{f32}[H H]"), 2),
    "of fewer heads": (
        f'((Q{{f32}}[G N D] K{{f32}}[G M D] V{{f32}}[H M E] A{{f32}}[H G]) -> (O{{f32}}[H N E])) (setf s (einsum "hid,hjd->hij" Q K)) '
        f'(setf p (softmax (einsum "hg,gij->hij" A s) :axis -1)) {TIMES_V}',
        1,
    ),
    "by a convolution of 1 by 1": (
        """((Q{f32}[B H N D] K{f32}[B H M D] V{f32}[B H M E] A{f32}[H H 1 1] C{f32}[H]) -> (O{f32}[B H N E]))
        (setf s (conv2d (einsum "bhid,bhjd->bhij" Q K) A C)) (return (einsum "bhij,bhje->bhie" (softmax s :axis -1) V))""",
        1,
    ),
    "loops": (
        f"""(({QKV} A{{f32}}[H H]) -> (O{{f32}}[H N E])) (make-array s f32 (H N M)) (make-array r f32 (H N M))
        (dotimes (h H) (dotimes (i N) (dotimes (j M) (dotimes (d D) (incf (aref s h i j) (* (aref Q h i d) (aref K h j d)))))))
        (dotimes (h H) (dotimes (i N) (dotimes (j M) (dotimes (g H) (incf (aref r h i j) (* (aref A h g) (aref s g i j)))))))
        (dotimes (h H) (dotimes (i N)
          (set top -inf)
          (dotimes (j M) (maxf top (aref r h i j)))
          (set l 0.0)
          (dotimes (j M) (incf l (exp (- (aref r h i j) top))))
          (dotimes (j M) (dotimes (e E) (incf (aref O h i e) (* (/ (exp (- (aref r h i j) top)) l) (aref V h j e)))))))""",
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_mixed_scores_are_no_tensor(name: str) -> None:
    """Each plane of scores is made once a tile, for all that it is mixed into, inside the loop over tiles."""
    module = check_one_pass(name, *MIXED[name], rounds=4, huge=1e2)
    tiles = [t for k in module.kernels for t in statements(k.body) if isinstance(t, Loop) and t.kind in ("serial", "elastic")]
    assert any(isinstance(s, Loop) and s.kind == "parallel" and any(isinstance(x, Loop) for x in s.body) for t in tiles for s in t.body)


def rows_by_columns(module: Module) -> int:
    return sum({size("N"), size("M")} <= set(t.shape) for t in module.temps)


def test_mixed_scores_are_a_tensor_where_that_is_better() -> None:
    """Of many planes the mixture is a product like others; without rows beside those that are mixed nothing is left for threads; somebody else may want them."""
    many = MIXED["before"][0].replace("[H ", "[500 ").replace(" H]", " 500]")
    assert rows_by_columns(nests(after(before(many)))) == 2
    alone = """((Q{f32}[N D] K{f32}[M D] V{f32}[N M E] A{f32}[N N]) -> (O{f32}[N E])) (setf s (einsum "id,jd->ij" Q K))
      (return (einsum "ij,ije->ie" (softmax (einsum "gi,ij->gj" A s) :axis -1) V))"""
    assert rows_by_columns(nests(after(before(alone)))) == 1
    wanted = MIXED["before"][0].replace("(O{f32}[H N E])", "(O{f32}[H N E] S{f32}[H N M])").replace("(setf s (einsum", "(setf z s) (setf s (einsum")
    wanted = wanted.replace(TIMES_V, f"{TIMES_V[:-1]} z)")
    assert rows_by_columns(nests(after(before(wanted)))) == 1


@needs_cc
@pytest.mark.parametrize("fixed", [{}, {"H": 3}])
def test_mixed_scores_compiled(fixed: dict[str, int]) -> None:
    """Blocks of rows and few rows, in one variant or the other; rows and columns that leave tiles over."""
    masked = MIXED["before, masked"][0]
    causal, both = (luminal.compile(f"(composite naive {text})", sizes=fixed) for text in (masked, MIXED["before and after"][0]))
    rng = np.random.default_rng(3)
    for n, m, d, e in [(1, 1, 1, 1), (5, 64, 3, 33), (57, 129, 16, 16), (70, 300, 40, 17), (3, 1100, 8, 5)]:
        q, k, v, a, w = (rng.standard_normal((3, *x)).astype(np.float32) for x in ((n, d), (m, d), (m, e), (3,), (3,)))
        s = np.einsum("gh,hij->gij", a.astype(np.float64), np.einsum("hid,hjd->hij", q, k)) / np.sqrt(d)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        assert np.abs(both(q, k, v, a, w) - np.einsum("gh,hij->gij", w, p) @ v).max() < 2e-5
        p = np.exp(s - s.max(-1, keepdims=True)) * (np.arange(m) <= np.arange(n)[:, None])
        assert np.abs(causal(q, k, v, a) - p / p.sum(-1, keepdims=True) @ v).max() < 2e-5


@needs_cc
@pytest.mark.parametrize("name", ["before", "after"])
def test_mixed_scores_on_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes of numbers that instructions multiply; what a plane's rows name is named for each of them."""
    offer(monkeypatch)
    text = f"(composite naive {MIXED[name][0].replace('f32', 'bf16').replace(' W{', ' A{').replace(' W p', ' A p')})"
    kernel = luminal.compile(text, target="x86-64-v3")
    assert "tile_bf16_f32(" in kernel.source
    rng = np.random.default_rng(1)
    for n, m, d, e in [(70, 150, 40, 33), (5, 64, 8, 17)]:
        shapes = {"Q": (n, d), "K": (m, d), "V": (m, e), "A": (3,)}
        agrees(kernel, text, {x: small(rng.standard_normal((3, *shape))) for x, shape in shapes.items()}, (3, n, m, d, e), name)


def test_the_schedule_of_mixed_scores() -> None:
    """What is multiplied is packed once for all rows, plane by plane, and what is mixed shares a tile of them in registers."""
    sizes = {"H": 8, "N": 512, "M": 512, "D": 64, "E": 64}
    (kernel,) = luminal.compile(f"(composite naive {MIXED['before'][0]})", sizes=sizes, target="x86-64-v3").compilation.module.kernels
    staged = [line.split()[1] for line in kernel.schedule if line.startswith("stage")]
    assert staged == ["K", "V", "Q"]
    assert any("share what is read along" in note for note in kernel.notes) and any("blocks of 12 rows" in note for note in kernel.notes)
    assert not any(note.startswith("not cascade") for note in kernel.notes)


GRADIENTS = """((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E] G{f32}[H N E] L{f32}[H N] U{f32}[H N]) -> (X{f32}[H N D] Y{f32}[H M D] Z{f32}[H M E]))
  (setf p (exp (- (einsum "hid,hjd->hij" Q K) (unsqueeze L :axis 2))))
  (setf t (* p (- (einsum "hie,hje->hij" G V) (unsqueeze U :axis 2))))
  (return (einsum "hij,hjd->hid" t K) (einsum "hij,hid->hjd" t Q) (einsum "hij,hie->hje" p G))"""
CAUSAL = GRADIENTS.replace("(setf p ", f"{PLACES} (setf p (where (<= j i) ").replace("L :axis 2))))", "L :axis 2))) 0))")
FROM_SCRATCH = """((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E] G{f32}[H N E]) -> (X{f32}[H N D] Y{f32}[H M D] Z{f32}[H M E]))
  (setf p (softmax (einsum "hid,hjd->hij" Q K) :axis -1)) (setf t (einsum "hie,hje->hij" G V))
  (setf t (* p (- t (sum (* p t) :axis -1 :keepdims t))))
  (return (einsum "hij,hjd->hid" t K) (einsum "hij,hid->hjd" t Q) (einsum "hij,hie->hje" p G))"""
SMALL = {"H": 8, "N": 128, "M": 128, "D": 64, "E": 64}


@pytest.mark.parametrize(("text", "kernels"), [(GRADIENTS, 2), (CAUSAL, 2), (FROM_SCRATCH, 4)])
def test_scores_of_both_directions_are_no_tensor(text: str, kernels: int) -> None:
    module = check_one_pass("gradients", text, kernels, masked=False)
    assert any("made in each of" in note for kernel in module.kernels for note in kernel.notes)


def test_scores_of_both_directions_are_stored_where_they_are_known_to_be_few() -> None:
    """But not where tiles of them are left out."""
    for text, stored in ((GRADIENTS, True), (CAUSAL, False)):
        notes = luminal.compile(f"(composite naive {text})", sizes=SMALL).compilation.notes
        assert any("no more than 16 MiB, are stored" in note for _, note in notes) == stored


STATISTICS = """((Q{f32}[N D] K{f32}[M D]) -> (A{f32}[N] B{f32}[M]))
  (setf s (einsum "id,jd->ij" Q K))
  (return (logsumexp s :axis 1) (logsumexp s :axis 0))"""
MASKED_STATISTICS = STATISTICS.replace('(setf s (einsum "id,jd->ij" Q K))', f'{PLACES} (setf s (where (<= j i) (einsum "id,jd->ij" Q K) -inf))')
SOFTMAXES = """((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E] W{f32}[H N E]) -> (A{f32}[H N E] B{f32}[H M E]))
  (setf s (einsum "hid,hjd->hij" Q K))
  (return (einsum "hij,hje->hie" (softmax s :axis 2) V) (einsum "hij,hie->hje" (softmax s :axis 1) W))"""
LARGE = {"H": 8, "N": 8192, "M": 8192, "D": 64, "E": 64}


@pytest.mark.parametrize(
    ("text", "sizes", "why"),
    [
        (GRADIENTS, {}, "passes over them: no tensor is as large"),
        (CAUSAL, {}, "passes over them: tiles that a mask leaves out are made in none"),
        (CAUSAL, SMALL, "passes over them: tiles that a mask leaves out are made in none"),
        (GRADIENTS, LARGE, "passes over them: they are known to be 1 GiB or more"),
        (GRADIENTS, SMALL, "no cascade: scores that would be made twice, and are known to be no more than 16 MiB, are stored"),
        (STATISTICS, {}, "statistics alone read, in both directions, are stored"),
        (MASKED_STATISTICS, {}, "statistics alone read, in both directions, are stored"),
        (SOFTMAXES, SMALL, "passes over them: no tensor is as large"),
        (STATISTICS, {"N": 32768, "M": 32768}, "passes over them: they are known to be 1 GiB or more"),
    ],
)
def test_one_reason_says_whether_scores_are_made_again(text: str, sizes: dict[str, int], why: str) -> None:
    module = luminal.compile(f"(composite naive {text})", sizes=sizes).compilation.module
    notes = [note for kernel in module.kernels for note in kernel.notes]
    assert sum(why in note for note in notes) >= 1, notes
    assert ("passes over them" in why) is not any(note.endswith("are stored") for note in notes), notes
