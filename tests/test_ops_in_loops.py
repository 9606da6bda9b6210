"""Composites of numbers give inside a loop what they give on a whole tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library import path_of
from luminal.dsl import Instance, Scope, elaborate, read, read_file
from luminal.dsl.scope import LIBRARY
from luminal.ir.interpret.graph import evaluate
from luminal.search.draw import draw

SIZES = {"N": 23}


def values(text: str, dtype: str) -> Any:
    composites = read(text)
    graph = elaborate(composites[-1], Scope(composites), Instance({"T": dtype} if "{T}" in text else {}))
    inputs = {p.name: draw(p, SIZES, 3) for p in graph.ports if p.role != "out"}
    return np.asarray(evaluate(graph, inputs, SIZES)[graph.outputs[0][0]].value)


NAMES = [p.stem for family in ("elementwise", "activation") for p in sorted(LIBRARY.glob(f"{family}/*.toml")) if p.stem not in ("glu", "prelu")]


@pytest.mark.parametrize(("name", "dtype"), [*((n, "") for n in NAMES), ("left_shift", "u8"), ("right_shift", "u8"), ("right_shift", "i64")])
def test_loops(name: str, dtype: str) -> None:
    composite = read_file(path_of(name))[-1]
    out = composite.port(composite.outputs[0])
    dtype = dtype or (composite.types["T"].name if composite.types else "f64")
    typed = [(p.name, p.type.name if p.type else "") for p in composite.inputs]
    ports = " ".join(f"{n}{{{t}}}[N]" for n, t in typed)
    head = f"(composite f (({ports}) -> (R{{{out.type.name if out.type else 'T'}}}[N]))"
    words = " ".join(n for n, _ in typed)
    elements = " ".join(f"(aref {n} i)" for n, _ in typed)
    whole = values(f"{head} (return ({name} {words})))", dtype)
    found = values(f"{head} (dotimes (i N) (setf (aref R i) ({name} {elements}))))", dtype)
    np.testing.assert_array_equal(found, whole)
