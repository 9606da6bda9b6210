"""Nests inside common loops of which one turns memory over: each is scheduled by itself, means the same, and what turns nothing over stays together."""

from __future__ import annotations

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal.compiler import Settings, compilations
from luminal.ir.kernel import If, Kernel, Loop
from luminal.ir.renaming import defined
from luminal.passes.schedule import Facts, replay, unique

pytestmark = pytest.mark.usefixtures("plain_c")

TURNED = "(composite padded ((X{f32}[B C H W]) -> (Y{f32}[B P Q C])) (return (pad (transpose X (0 2 3 1)) (0 0) (1 2) (3 1) (0 0))))"
STRAIGHT = "(composite padded ((X{f32}[B H W C]) -> (Y{f32}[B P Q C])) (return (pad X (0 0) (1 2) (3 1) (0 0))))"
PADS = ((0, 0), (1, 2), (3, 1), (0, 0))


LONG = ("C > 64", "W >= 8")  # rows that are never a few vectors, for which there would be a copy, nor a few elements


def scheduled(code: str, *assume: str) -> tuple[Kernel, Kernel, Facts]:
    (c,) = compilations(code, Settings(target="x86-64-v4", assume=assume))
    before, after = c.run(stop_after="join_blocks"), c.run(stop_after="schedule")
    return before.kernels[0], after.kernels[0], Facts.of(before)


def test_each_nest_has_loops_of_its_own() -> None:
    """What turns memory over goes through registers in blocks, and the threads share images and rows of one image."""
    before, kernel, facts = scheduled(TURNED, *LONG)
    assert len(before.body) == 1
    assert len([s for s in kernel.body if isinstance(s, Loop)]) == 5, kernel.schedule
    assert any("turned over in registers" in n for n in kernel.notes), kernel.notes
    assert sum(line.startswith("fission") for line in kernel.schedule) == 2
    assert all(line.split()[1].count("_") for line in kernel.schedule if line.startswith("parallel")), kernel.schedule
    assert replay(unique(before), facts, kernel.schedule).body == kernel.body


def test_nests_that_are_turned_over_share_no_names() -> None:
    """Each is scheduled by itself, and so named that the steps of all are those of the whole kernel: what begins before a line is a nest more."""
    text = """(composite halves ((B{u8}[N K 258]<2 1 0>) -> (Y{i32}[N K 512]))
      (setf byte (slice B _ _ (2 258))) (return (- (cast i32 (concat (logand byte 15) (ash byte -4) :axis -1)) 8)))"""
    before, kernel, facts = scheduled(text)
    names = defined(kernel.body)
    assert len(set(names)) == len(names)
    assert sum(line.startswith("align") for line in kernel.schedule) == 4, kernel.schedule
    assert replay(unique(before), facts, kernel.schedule).body == kernel.body


def test_what_turns_nothing_over_stays_together() -> None:
    before, kernel, _ = scheduled(STRAIGHT, *LONG)
    assert len(before.body) == len([s for s in kernel.body if isinstance(s, Loop)]) == 1
    assert not any(line.startswith("fission") for line in kernel.schedule)


@pytest.mark.parametrize(("turned", "assume", "condition"), [
    (TURNED, (), "8 <= W & 8 <= C"),
    (TURNED, ("C > 64",), "8 <= W"),
    (TURNED, ("C == 3",), None),
    ("(composite padded ((X{f32}[B H W C]) -> (Y{f32}[B C P Q])) (return (pad (transpose X (0 3 1 2)) (0 0) (0 0) (1 2) (3 1))))", (), "8 <= C"),
])  # fmt: skip
def test_nests_stay_together_where_blocks_would_be_mostly_empty(turned: str, assume: tuple[str, ...], condition: str | None) -> None:
    """Few elements of what is read side by side, or of what is stored, where lines are read one after the other all the same."""
    _, kernel, _ = scheduled(turned, *assume)
    if condition is None:
        assert not any(line.startswith("fission") for line in kernel.schedule)
    else:
        assert kernel.schedule[0] == f"variant {condition}"
        (choice,) = kernel.body
        assert isinstance(choice, If) and len(choice.body) > 1


@needs_cc
@pytest.mark.parametrize("target", ["native", "x86-64-v4", "x86-64-v3"])
def test_the_values(target: str) -> None:
    """Rows of less than a block, of one and of more; no image, no channel.  What is left of a row is a block too: no element is moved by itself but where channels are left over as well."""
    f = luminal.compile(TURNED, target=target)
    assert "load_first_f32" in f.source and "turned" in f.source
    rng = np.random.default_rng(5)
    for shape in [(1, 1, 1, 1), (2, 5, 3, 7), (1, 16, 4, 16), (3, 33, 2, 35), (1, 64, 9, 20), (0, 3, 2, 2), (2, 0, 3, 3), (1, 20, 0, 5)]:
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(f(x), np.pad(x.transpose(0, 2, 3, 1), PADS))
