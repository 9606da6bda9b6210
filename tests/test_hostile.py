"""Hostile input is refused or compiled, without a traceback and leaving no file (see `hostile.py`, which prints the times); names that only C dislikes work."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import HAS_CC
from hostile import attempt, cases

CASES = cases()
NAMES = "asm double printf main for inline restrict errno int I NULL int32_t union template class new M_PI _Bool lm_f f N_ x-y x.y N2 status memcpy"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", CASES)
def test_it_is_survived(name: str) -> None:
    outcome = attempt(CASES[name])
    assert outcome.status in (0, 1, 2) and "Traceback" not in outcome.said and outcome.left == []
    assert outcome.status == 0 or outcome.said.startswith(("f.", "c", "luminal: error:")) or "error[E" in outcome.said.splitlines()[0]
    assert len(outcome.said) < 200_000 and "\x1b" not in outcome.said


@pytest.mark.parametrize("runtime", ["reference", *(["clang"] if HAS_CC else [])])
def test_names_that_only_c_dislikes(runtime: str) -> None:
    """As ports, sizes, locals and loop variables of one composite."""
    names = NAMES.split()
    ports = " ".join(f"{name}{{f32}}[{name}_ size]" for name in names)
    others = names[1:] + names[:1]  # a loop variable and a local shadow ports of their name
    loops = " ".join(
        f"(dotimes ({a} size) (let (({b} (aref {name} 0 {a}))) (incf (aref out {a}) {b})))"
        for name, a, b in zip(names, others, others[1:] + others[:1], strict=True)
    )
    text = f"(composite double (({ports}) -> (out{{f32}}[size]))\n  {loops})"
    function = luminal.compile(text, runtime=runtime, config={"OMP": 0, "DEBUG": 1} if runtime == "clang" else {})
    arrays = [np.full((1, 3), k, np.float32) for k in range(len(names))]
    np.testing.assert_array_equal(function(*arrays), [sum(range(len(names)))] * 3)


@pytest.mark.parametrize("name", ["asm", "double", "printf", "main", "for", "inline", "restrict", "errno", "int"])
def test_such_a_name_for_a_composite(name: str) -> None:
    function = luminal.compile(f"(composite {name} ((A{{f32}}[N]) -> (Y{{f32}}[N])) (return (+ A 1)))", runtime="reference")
    assert function(np.zeros(2, np.float32)).tolist() == [1, 1]
    assert f"lm_{name}(" in luminal.compile(f"(composite {name} ((A{{f32}}[N]) -> (Y{{f32}}[N])) (return (+ A 1)))").source
