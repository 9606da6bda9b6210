"""`read(show(x)) == x` on random IR, and showing what was read gives the same text."""

import random

import pytest
from luminal.ir.dtypes import bool_, f16, f32, i32, i64, u8
from luminal.ir.expr import axis, load, size, var
from luminal.ir.text import read, read_expr, show, show_expr
from random_ir import random_expr, random_graph, random_index, random_module, random_program

SEEDS = 250
MAKERS = {"graph": random_graph, "kernels": random_module, "program": random_program}


@pytest.mark.parametrize("level", MAKERS)
def test_levels_round_trip(level: str) -> None:
    texts = set()
    for seed in range(SEEDS):
        x = MAKERS[level](random.Random(seed))
        text = show(x)
        assert text.startswith(level + " ")
        again = read(text)
        assert again == x, f"seed {seed}\n{text}"
        assert show(again) == text, f"seed {seed}"
        texts.add(text)
    assert len(texts) > SEEDS * 0.8  # the generator is not stuck


@pytest.mark.parametrize("dtype", [f32, f16, i32, i64, u8, bool_], ids=str)
def test_expressions_round_trip(dtype) -> None:
    sizes, variables, buffers = ("M", "N"), {"i": i64, "a": f32, "flag": bool_, "h": f16}, {"x": i32, "y": u8}
    leaves = [*map(size, sizes), axis(0), axis(3), *(var(n, d) for n, d in variables.items()), load("x", i32, var("i"), size("M")), load("y", u8)]
    for seed in range(SEEDS):
        rng = random.Random(seed)
        e = random_expr(rng, dtype, leaves, 5) if dtype is not i64 or seed % 2 else random_index(rng, leaves[:5], 6)
        text = show_expr(e)
        assert read_expr(text, sizes, variables, buffers) is e, f"seed {seed}: {text}"
