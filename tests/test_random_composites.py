"""Random programs, at -O0 or -O1, -O2 and random schedules, for this machine, for narrow vectors and for a GPU under the host shim, against the interpreter; what was ever found stays found.

A failure is shrunk and written to tests/found/, whose files are tested from then on.  `--random N` takes N programs in place of those of a quick run, and `python tests/random_runs.py` as many
as one likes, for any target.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from compilers import needs_cc
from cuda_unit import needs_host
from random_composites import random_composite, show
from random_runs import FOUND, Program, at, check, keep, paths, put, run, size_of, smaller

PARTS = {"native": 0, "narrow": 1000, "cuda": 2000}  # place -> the first seed
TYPED = 0.9  # of the programs the language takes, at least
pytestmark = [needs_cc, needs_host, pytest.mark.timeout(600)]


@pytest.mark.long
@pytest.mark.parametrize("where", PARTS)
def test_random_programs(where: str, request: pytest.FixtureRequest) -> None:
    first, count = PARTS[where], request.config.getoption("--random")
    print(f"seeds {first} … {first + count - 1}, {where}")
    counts: Counter[str] = Counter()
    failures = list(run(first, count, counts, where))
    assert not failures, "\n\n".join(f"{keep(f, where)}\n{f.status}: {f.detail}\n{f.text}" for f in failures)
    assert counts["programs"] >= TYPED * count, "the generator makes too much that the language refuses"
    assert counts["cases"] > 5 * counts["programs"]
    assert counts["undecided"] < 0.02 * counts["points"], "too little is judged"


@pytest.mark.long
@pytest.mark.parametrize("where", PARTS)
def test_what_was_found(where: str) -> None:
    """Each file is a program that once failed; `seed=` in its first line is that of its schedule and of its sizes, `where=` the place that it was compiled for (else this machine)."""
    programs, files = [], {}
    for file in sorted(FOUND.glob("*.lisp")):
        head, _, _ = file.read_text().partition("\n")
        said = dict(word.split("=", 1) for word in head.split() if "=" in word)
        if (said.get("where", "native") if said.get("where") in PARTS else "native") != where:
            continue
        text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith(";"))
        seed = int(said["seed"])
        programs.append(Program(f"seed_{seed}", text, seed))
        assert files.setdefault(f"seed_{seed}", file) is file, "two programs of one name"
    counts: Counter[str] = Counter()
    failures = list(check(programs, counts, where))
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
