"""Random statements on the rows of an iteration, which read what they write: elaborated, raised and plain Python agree."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from luminal.ir.interpret.graph import evaluate
from luminal.ir.interpret.judge import judge
from luminal.ir.target import Options
from luminal.passes.raise_loops import raise_loops
from running import TARGET, composite, draw

SEED = 3
COUNT = 80
SIDE = 5
PLAIN = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "flip": np.flip,
    "abs": np.abs,
    "sin": np.sin,
    "tanh": np.tanh,
    ">": np.greater,
    "<": np.less,
}


class Draw:
    """Code over A[5 5], the rows z and v, the number s and the loop variables i and j."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, *options: str) -> str:
        return options[self.rng.integers(len(options))]

    def index(self) -> str:
        return self.one("i", "j", "0", "2")

    def row(self, depth: int) -> str:
        kind = self.rng.integers(9 if depth else 4)
        if kind < 4:
            return (
                self.one("z", "v"),
                f"(aref A {self.index()})",
                self.one("(cast f32 (iota 5))", f"(slice A _ {self.index()})"),
                f"(aref A {self.index()})",
            )[kind]
        return (
            lambda: f"({self.one('+', '-', '*', 'max')} {self.row(depth - 1)} {self.row(depth - 1)})",
            lambda: f"({self.one('+', '*')} {self.number(depth - 1)} {self.row(depth - 1)})",
            lambda: f"({self.one('flip', 'abs', 'sin')} {self.row(depth - 1)})",
            lambda: f"(where (> {self.row(depth - 1)} 0.5) {self.row(depth - 1)} {self.number(depth - 1)})",
            lambda: f"(if (> i 1) {self.row(depth - 1)} {self.row(depth - 1)})",
        )[kind - 4]()

    def number(self, depth: int) -> str:
        kind = self.rng.integers(5 if depth else 2)
        return (
            lambda: f"(aref A {self.index()} {self.index()})",
            lambda: self.one("0.5", "i", "s"),
            lambda: f"({self.one('sum', 'max', 'min')} {self.row(depth - 1)})",
            lambda: f"(if (< j 2) {self.number(depth - 1)} {self.number(depth - 1)})",
            lambda: f"(* 0.5 {self.number(depth - 1)})",
        )[kind]()

    def statement(self) -> str:
        return (
            lambda: f"(setf {self.one('z', 'v')} (tanh {self.row(2)}))",
            lambda: f"(setf (aref A {self.index()}) (tanh {self.row(2)}))",
            lambda: f"(set s (tanh (* 1.0 {self.number(2)})))",
            lambda: f"(incf (aref A {self.index()}) (* 0.1 (+ z {self.row(1)})))",
            lambda: f"(if (> s 0.0) (setf z {self.row(1)}) (setf (aref A i) (* 0.5 z)))",
        )[self.rng.integers(5)]()


def parsed(text: str) -> Any:
    words = re.findall(r"[()]|[^\s()]+", text)

    def form() -> Any:
        word = words.pop(0)
        if word != "(":
            return word
        items = []
        while words[0] != ")":
            items.append(form())
        words.pop(0)
        return items

    return form()


def value(e: Any, names: dict[str, Any]) -> Any:
    if isinstance(e, str):
        return names[e] if e in names else float(e)
    match e:
        case ["aref", name, *indices]:
            found = names[name]
            for k in indices:
                found = found[int(value(k, names))]
            return np.array(found)
        case ["slice", name, _, k]:
            return names[name][:, int(value(k, names))].copy()
        case ["cast", _, x]:
            return value(x, names)
        case ["iota", count]:
            return np.arange(float(count))
        case ["if", c, a, b]:
            return value(a if value(c, names) else b, names)
        case ["where", *operands]:
            return np.where(*(value(x, names) for x in operands))
        case ["sum" | "max" | "min" as name, x]:
            return getattr(np, name)(value(x, names))
        case ["max", a, b]:
            return np.maximum(value(a, names), value(b, names))
        case _:
            return PLAIN[e[0]](*(value(x, names) for x in e[1:]))


def run(statement: Any, names: dict[str, Any]) -> None:
    match statement:
        case ["if", c, a, b]:
            run(a if value(c, names) else b, names)
        case ["incf", ["aref", name, k], e]:
            names[name][int(value(k, names))] += value(e, names)
        case [_, ["aref", name, k], e]:
            names[name][int(value(k, names))] = value(e, names)
        case [_, name, e]:
            names[name] = value(e, names) + (0 if name == "s" else np.zeros(SIDE))


def by_hand(statements: list[str], a: Any) -> Any:
    names = {"A": a.astype(float), "s": 0.25}
    names |= {"z": names["A"][1].copy(), "v": names["A"][2].copy()}
    for i in range(3):
        for j in range(3):
            names |= {"i": float(i), "j": float(j)}
            for s in statements:
                run(parsed(s), names)
    names["A"][4] = names["z"] + names["v"] + names["s"]
    return names["A"]


def test_statements_that_read_what_they_write() -> None:
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    code = Draw(rng)
    for k in range(COUNT):
        statements = [code.statement() for _ in range(rng.integers(1, 5))]
        body = "\n".join(statements)
        graph = composite(
            f"(composite f ((A{{f32}}[{SIDE} {SIDE}]) -> (A)) (setf z (aref A 1)) (setf v (aref A 2)) (set s 0.25)\n"
            f"(dotimes (i 3) (dotimes (j 3)\n{body}))\n(setf (aref A 4) (+ z v s)))"
        )
        inputs = draw(graph, {}, k)
        exact = evaluate(graph, inputs, {})["A"]
        if not exact.ill.any():  # a literal such as 0.1 is that of f32
            np.testing.assert_allclose(np.asarray(exact.value, float), by_hand(statements, inputs["A"]), rtol=1e-5, atol=1e-5, err_msg=body)
        raised = evaluate(raise_loops(graph, TARGET, Options()), inputs, {})["A"]
        assert judge(np.asarray(raised.value), exact, graph.port("A").dtype).ok, body
