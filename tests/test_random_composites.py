"""A hundred and ten random programs, at -O0, -O2 and random schedules, against the interpreter; what was ever found stays found.

A failure is shrunk and written to tests/found/, whose files are tested from then on.  `python tests/random_runs.py` runs as many as one likes.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from compilers import needs_cc
from random_composites import random_composite, show
from random_runs import FOUND, UNIT, Program, at, check, keep, paths, put, run, size_of, smaller

FIRST, EACH, PARTS = 0, UNIT, 2
TYPED = 50  # programs of a part that the language takes, at least
pytestmark = [needs_cc, pytest.mark.timeout(600)]


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    first = FIRST + part * EACH
    print(f"seeds {first} … {first + EACH - 1}")
    counts: Counter[str] = Counter()
    failures = list(run(first, EACH, counts))
    assert not failures, "\n\n".join(f"{keep(f)}\n{f.status}: {f.detail}\n{f.text}" for f in failures)
    assert counts["programs"] >= TYPED, "the generator makes too much that the language refuses"
    assert counts["cases"] > 5 * counts["programs"]
    assert counts["undecided"] < 0.02 * counts["points"], "too little is judged"


@pytest.mark.long
def test_what_was_found() -> None:
    """Each file is a program that once failed; `seed=` in its first line is that of its schedule and of its sizes."""
    programs, files = [], {}
    for file in sorted(FOUND.glob("*.lisp")):
        head, _, _ = file.read_text().partition("\n")
        text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith(";"))
        seed = int(next(w for w in head.split() if w.startswith("seed=")).removeprefix("seed="))
        programs.append(Program(f"seed_{seed}", text, seed))
        assert files.setdefault(f"seed_{seed}", file) is file, "two programs of one name"
    counts: Counter[str] = Counter()
    failures = list(check(programs, counts))
    assert not failures, "\n".join(f"{files[f.program.name]}: {f.way} {f.status} {f.case}: {f.detail}" for f in failures)
    assert counts["programs"] + counts["refused"] == len(files) and counts["cases"] >= counts["programs"]


def test_programs_depend_on_the_seed_alone() -> None:
    assert show(random_composite(random.Random(7))) == show(random_composite(random.Random(7)))
    assert len({show(random_composite(random.Random(seed))) for seed in range(50)}) == 50


def test_cuts_make_a_program_smaller_and_reach_every_part() -> None:
    form = random_composite(random.Random(3))
    cuts = list(smaller(form))
    assert all(size_of(c) < size_of(form) for c in cuts)
    inner = [p for p in paths(form) if len(p) > 3 and p[0] >= 3]
    assert all(any(put(form, p, None) == c for c in cuts) for p in inner[:20])
    assert at(form, ()) is form
