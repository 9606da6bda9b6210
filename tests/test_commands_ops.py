"""`luminal ops`, and the counting of primops behind it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from luminal.cli.main import cli
from luminal.cli.ops import library
from luminal.dsl import Scope, elaborate, read
from luminal.ir.census import operators
from luminal.ir.errors import UsageError
from luminal.ir.primops import OPS, STRUCTURAL


def luminal(*words: str) -> str:
    return CliRunner().invoke(cli, words, catch_exceptions=False, standalone_mode=False).stdout


def test_the_list_names_every_composite_once_with_its_family() -> None:
    shown = luminal("ops")
    names = [c.name for members in library().values() for c in members]
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("  ")] == names
    assert json.loads(luminal("ops", "--json")).keys() >= {*library(), "elementwise", "linalg", "nn", "reduce"}


def test_a_composite_is_shown_with_formula_code_and_decomposition() -> None:
    facts = json.loads(luminal("ops", "softmax", "--json"))
    assert facts["family"] == "nn" and facts["signature"] == "(softmax X :axis axis)"
    assert facts["inputs"] == ["X{T}[~ N]"] and facts["outputs"] == ["Y{T}[~ N]"] and facts["parameters"]["axis"]["default"] == -1
    assert facts["operators"] == {"max_reduce": 1, "sub": 1, "exp": 1, "sum_reduce": 1, "div": 1}
    assert "exp" not in facts["primops"] and facts["primops"]["exp2"] == 1 and facts["primops"]["recip"] == 1
    text = luminal("ops", "softmax")
    assert "Bridle" in text and "(return (/ e" in text and "batch=3 N=53" in text


@pytest.mark.parametrize("composite", [c for members in library().values() for c in members], ids=lambda c: c.name)
def test_every_composite_becomes_primops(composite: object) -> None:
    primops = (
        {name for name in OPS if OPS[name].primop}
        | STRUCTURAL.keys()
        | {"max_reduce.min", "max_reduce.mul", "max_reduce.and", "max_reduce.or", "update", "nest"}
    )
    assert set(json.loads(luminal("ops", composite.name, "--json"))["primops"]) <= primops  # type: ignore[attr-defined]


def test_counts_are_of_nodes() -> None:
    (c,) = read("(composite f ((A{f32}[N] B{f32}[N]) -> (Y{f32}[N])) (return (- (* A B) (* B A))))", "f.lisp")
    graph = elaborate(c, Scope((c,)))
    assert operators(graph) == {"mul": 2, "sub": 1}
    assert operators(graph, native=()) == {"mul": 3, "add": 1}


def test_complex_numbers_are_counted_in_components() -> None:
    (c,) = read("(composite f ((A{c64}[N] B{c64}[N]) -> (Y{c64}[N])) (return (* A (conj B))))", "f.lisp")
    graph = elaborate(c, Scope((c,)))
    assert operators(graph) == {"real": 1, "imag": 1, "neg": 1, "complex": 1, "mul": 1}
    # -im is im · -1; then (ac - bd) + (ad + bc) i, where x - y is x + y · -1
    assert operators(graph, native=()) == {"mul": 6, "add": 2}


def test_operators_of_the_language_and_unknown_names() -> None:
    assert luminal("ops", "einsum").startswith("(einsum ")
    with pytest.raises(UsageError, match="nearest: softmax"):
        luminal("ops", "sofmax")
