"""Vectors of which only the first lanes are there: one instruction where the machine has it, halves where it has it for those (`runtimes/clang/helpers/lanes.j2`)."""

import luminal
import numpy as np
import pytest

INNER = "(composite inner ((X{%s}[M N](where N > 2)) -> Y) (return (max 3 (slice X _ (1 (- N 1))))))"


@pytest.mark.parametrize(("dtype", "instruction"), [("u8", "loaddquqi512_mask"), ("i16", "loaddquhi512_mask"), ("i32", "loaddqusi512_mask")])
def test_one_instruction(dtype, instruction):
    source = luminal.compile(INNER % dtype, target="x86-64-v4").source
    assert instruction in source
    assert "store" + instruction[4:] in source


@pytest.mark.parametrize("dtype", ["u8", "i8", "u16", "i16", "i32", "i64", "f32", "f64"])
def test_every_count(dtype):
    f = luminal.compile(INNER % dtype)
    kind = {"u": "uint", "i": "int", "f": "float"}[dtype[0]] + dtype[1:]
    for n in range(3, 140):
        x = np.random.default_rng(n).integers(0, 100, (3, n)).astype(kind)
        np.testing.assert_array_equal(f(x), np.maximum(x[:, 1:-1], 3))
