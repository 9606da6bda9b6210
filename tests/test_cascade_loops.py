"""The same rule finds what is written as scalar loops, and names the factor that is in its way."""

import pytest
from cascades import check_one_pass
from click.testing import CliRunner
from luminal.cli.main import cli

pytestmark = pytest.mark.usefixtures("plain_c")

QKV = "Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]"
SCORES = """
  (make-array s f32 (H N M))
  (dotimes (h H) (dotimes (i N) (dotimes (j M) (dotimes (d D)
    (incf (aref s h i j) (* (aref Q h i d) (aref K h j d)))))))"""


def attention(score: str) -> str:
    """Rows of a softmax over `score`, an expression of (h, i, j), times V."""
    return f"""(({QKV}) -> (O{{f32}}[H N E])) {SCORES}
  (dotimes (h H) (dotimes (i N)
    (set top -inf)
    (dotimes (j M) (maxf top {score}))
    (set l 0.0)
    (dotimes (j M) (incf l (exp (- {score} top))))
    (dotimes (j M) (dotimes (e E)
      (incf (aref O h i e) (* (/ (exp (- {score} top)) l) (aref V h j e)))))))"""


SCALED = "(* (aref s h i j) (rsqrt D))"
LOOPS: dict[str, str] = {
    "softmax": """((X{f32}[M N]) -> (Y{f32}[M N]))
  (dotimes (i M)
    (set top -inf)
    (dotimes (j N) (maxf top (aref X i j)))
    (set l 0.0)
    (dotimes (j N) (incf l (exp (- (aref X i j) top))))
    (dotimes (j N) (setf (aref Y i j) (/ (exp (- (aref X i j) top)) l))))""",
    "logsumexp": """((X{f32}[M N]) -> (Y{f32}[M]))
  (dotimes (i M)
    (set top -inf)
    (dotimes (j N) (maxf top (aref X i j)))
    (set l 0.0)
    (dotimes (j N) (incf l (exp (- (aref X i j) top))))
    (setf (aref Y i) (+ top (log l))))""",
    "attention": attention(SCALED),
    "attention, causal": attention(f"(if (<= j i) {SCALED} -inf)"),
    "attention, soft cap and distance": attention(f"(- (* 20 (tanh (/ {SCALED} 20))) (* 0.1 (cast f32 (abs (- i j)))))"),
    # nobody's: weights relative to the square of the mass of the sharper ones
    "half as sharp": """((Q{f32}[N D] K{f32}[M D] V{f32}[M]) -> (Y{f32}[N]))
  (dotimes (i N)
    (make-array s f32 (M))
    (dotimes (j M)
      (dotimes (d D) (incf (aref s j) (* (aref Q i d) (aref K j d)))))
    (set top -inf)
    (dotimes (j M) (maxf top (aref s j)))
    (set a 0.0)
    (set b 0.0)
    (dotimes (j M)
      (incf a (exp (- (aref s j) top)))
      (incf b (* (aref V j) (exp (* 2 (- (aref s j) top))))))
    (setf (aref Y i) (/ b (* a a))))""",
    # nobody's: how far the centre of what is near lies from the centre of what is far, by a softmax and a softmin of distances
    "near and far": """((Q{f32}[N D] K{f32}[M D] V{f32}[M]) -> (Y{f32}[N]))
  (dotimes (i N)
    (make-array s f32 (M))
    (dotimes (j M)
      (dotimes (d D) (incf (aref s j) (abs (- (aref Q i d) (aref K j d))))))
    (set most -inf)
    (set least inf)
    (dotimes (j M) (maxf most (aref s j)) (minf least (aref s j)))
    (set a 0.0)
    (set b 0.0)
    (set u 0.0)
    (set w 0.0)
    (dotimes (j M)
      (let ((far (exp (- (aref s j) most))) (near (exp (- least (aref s j)))))
        (incf a far)
        (incf b near)
        (incf w (* far (aref V j)))
        (incf u (* near (aref V j)))))
    (setf (aref Y i) (- (/ u b) (/ w a))))""",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_one_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luminal.passes.nests.nest_cascade.LONG_TILE", 64)
    check_one_pass(name, LOOPS[name], 1)


@pytest.mark.parametrize(
    ("body", "factor"),
    [
        ("(tanh (- X (max X :axis 1 :keepdims t)))", "`tanh` mixes"),
        ("(/ (exp X) (+ X (max X :axis 1 :keepdims t)))", "`div` mixes"),
        ("(exp (/ X (+ X (max X :axis 1 :keepdims t))))", "`div` in an exponent"),
        ("(exp (- (floor (- X (max X :axis 1 :keepdims t)))))", "`floor` in an exponent mixes"),
    ],
)
def test_show_says_which_factor_is_in_the_way(body: str, factor: str) -> None:
    text = f"(composite stays ((X{{f32}}[M N]) -> (Y{{f32}}[M]))\n  (return (sum {body} :axis 1)))"
    done = CliRunner().invoke(cli, ["show", "-", "--why", "--runtime", "reference"], input=text, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert factor in done.output and "(line 2)" in done.output, done.output


def test_show_says_it_where_the_earlier_reduction_is_one_pass_by_itself() -> None:
    """The maximum of scores, which are a product, is taken tile by tile; what keeps the second product from joining it is said all the same."""
    text = """(composite stays ((Q{f32}[H N D] K{f32}[H M D] V{f32}[H M E]) -> (O{f32}[H N E]))
      (setf s (einsum "hid,hjd->hij" Q K))
      (return (einsum "hij,hje->hie" (sin (* s (max s :axis -1 :keepdims t))) V)))"""
    done = CliRunner().invoke(cli, ["show", "-", "--why", "--runtime", "reference"], input=text, catch_exceptions=False)
    assert "no cascade: `sin` mixes" in done.output, done.output
    attention = text.replace("(sin (* s (max s :axis -1 :keepdims t)))", "(softmax s :axis -1)")
    assert (
        "no cascade" not in CliRunner().invoke(cli, ["show", "-", "--why", "--runtime", "reference"], input=attention, catch_exceptions=False).output
    )
