"""Where the definition leaves a point undecided, the second opinion of the composite's `[test] code` is what a kernel is judged by."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from luminal.cli.main import cli
from luminal.dsl import second_opinion
from luminal.dsl.reader import read_file
from luminal.dsl.scope import LIBRARY
from luminal.ir.interpret.judge import Bounded, settled
from luminal.search.conformance.kernels import Spec
from luminal.search.conformance.unit import Settings, run_unit

# the head of y in twelve bits and what is left of it, together y; the bits of a rounded number are undecided, so by itself no point of it is judged
HEAD = """
[composite]
name = "apart"
inputs = ["X{f32}[N]"]
outputs = ["Y{f32}[N]"]

[implementation]
code = '''
(setf y (/ X 3))
(setf head (bitcast f32 (ash (ash (bitcast i32 y) -12) 12)))
(return (+ head (- y head)))
'''

[test]
sizes = [{ N = 100 }]
"""
CODE = "code = '(lambda (X) (return (/ X 3)))'\n"


def judged(folder: Path, text: str) -> tuple[bool, int]:
    """Whether all is right, and how many points were not judged."""
    (folder / "apart.toml").write_text(text)
    done = CliRunner().invoke(cli, ["compile", str(folder / "apart.toml"), "--runtime", "reference", "--test=", "--json"], catch_exceptions=False)
    report = json.loads(done.stdout)
    return report["ok"], sum(o["ill_conditioned"] for row in report["results"] for o in row["outputs"])


def test_it_decides_what_the_definition_does_not(tmp_path: Path) -> None:
    good, undecided = judged(tmp_path, HEAD)
    assert good and undecided > 50
    assert judged(tmp_path, HEAD + CODE) == (True, 0)
    # at most of its points nobody could tell this by the body alone
    wrong = HEAD.replace("(- y head)", "(- y (* head 1.001))")
    good, undecided = judged(tmp_path, wrong)
    assert good and undecided > 50
    assert judged(tmp_path, wrong + CODE) == (False, 0)


def test_what_neither_decides_stays_undecided() -> None:
    said = Bounded(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.1, 0.1]), np.array([False, True, True]))
    other = Bounded(np.array([5.0, 6.0, 7.0]), np.array([0.2, 0.2, 0.2]), np.array([False, False, True]))
    both = settled({"y": said}, {"y": other})["y"]
    assert both.value.tolist()[:2] == [1, 6] and both.bound.tolist()[:2] == [0.1, 0.2] and both.ill.tolist() == [False, False, True]


@pytest.mark.parametrize(("name", "instance"), [("log10", 0), ("quantile", 2)])
def test_every_point_of_these_is_judged(name: str, instance: int) -> None:
    """Both go by a discontinuity that cancels: the bits of a rounded number, the element below a place."""
    path = next(LIBRARY.glob(f"*/{name}.toml"))
    assert second_opinion(read_file(path)[-1]) is not None
    (tally,) = run_unit([Spec(name, "composite", "f32", instance=instance)], Settings("reference", quick=True))
    assert tally.status == "passes" and tally.points > 100 and tally.undecided == 0 and 0 < tally.ratio <= 1
    assert name != "log10" or (sum(tally.steps.values()) == tally.points and max(tally.steps) <= 1)
