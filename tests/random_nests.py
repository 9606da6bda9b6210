"""Random affine loop nests, as text of the language: imperfect, triangular, of several statements, with local scalars and arrays, guards and recurrences.

Everything is of integers, so any order of sums gives the same; loops run from 1 to N - 1, so that neighbours are inside.
"""

from __future__ import annotations

import random
import re

ARRAYS = {"A": 2, "B": 2, "C": 2, "U": 1, "V": 1, "W": 1, "S": 0}  # axes of each port
OUTPUTS = ("A", "B", "U", "V", "S", "Y", "Z")  # Y[N N] and Z[N] are outputs of their own, zeros at first


class Nest:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.axes = 0
        self.names = 0
        self.scalars: list[str] = []
        self.locals: list[str] = []

    def text(self) -> str:
        first = self.loop([], self.rng.choice((1, 2, 2, 3)), True)
        second = self.loop([], 2, True) if self.rng.random() < 0.3 else ""
        given = ""
        for own, port in (("Y", "A"), ("Z", "W")):  # an output of its own has a value, or it is zeros where the first nest stores into it
            if self.rng.random() < 0.4 or not re.search(rf"f \(aref {own} ", first):
                given += f"(setf {own} {port}) "
        ports = " ".join(f"{name}{{int}}[{' '.join('N' * axes)}]" for name, axes in ARRAYS.items())
        outputs = " ".join({"Y": "Y{int}[N N]", "Z": "Z{int}[N]"}.get(name, name) for name in OUTPUTS)
        body = f"{given}{first} {second}"
        return f"(composite t (({ports}) -> ({outputs})) (incf S 1) {body})"

    # ---- statements

    def loop(self, around: list[str], depth: int, stores: bool = False) -> str:
        rng, axis = self.rng, f"i{self.axes}"
        self.axes += 1
        start, stop = "1", "(- N 1)"
        if around and rng.random() < 0.3:
            other = rng.choice(around)
            start, stop = rng.choice(((other, stop), (start, other), (start, f"(+ {other} 1)"), (f"(+ {other} 1)", stop)))
        step = ""
        if rng.random() < 0.15:
            start, stop, step = (f"(- {stop} 1)", f"(- {start} 1)", " -1") if rng.random() < 0.6 else (start, stop, " 2")
        scalars, local = list(self.scalars), list(self.locals)
        inner = [*around, axis]
        parts = [self.statement(inner) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
        if depth > 1:
            parts.append(self.loop(inner, depth - 1))
            if rng.random() < 0.25:
                parts.append(self.loop(inner, 1))
        parts += [self.statement(inner) for _ in range(rng.choice((0, 1, 1, 2)) if depth > 1 else rng.choice((1, 1, 2, 3)))]
        if stores:
            parts.append(self.store(inner, OUTPUTS))
        self.scalars, self.locals = scalars, local
        return f"(loop ({axis} {start} {stop}{step}) {' '.join(parts)})"

    def statement(self, around: list[str]) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.12:
            name = f"s{self.names}"
            self.names += 1
            text = f"(set {name} {self.value(around)})"
            self.scalars.append(name)
            return text
        if kind < 0.3 and self.scalars:
            return f"({rng.choice(('incf', 'decf', 'maxf', 'set'))} {rng.choice(self.scalars)} {self.value(around)})"
        if kind < 0.34:
            name = f"w{self.names}"
            self.names += 1
            self.locals.append(name)
            return f"(make-array {name} int (N))"
        if kind < 0.44:
            then = self.store(around)
            other = f" {self.store(around)}" if rng.random() < 0.3 else ""
            return f"(if {self.condition(around)} {then}{other})"
        return self.store(around)

    def store(self, around: list[str], names: tuple[str, ...] = ()) -> str:
        rng = self.rng
        head = rng.choice(("setf", "setf", "incf", "incf", "decf", "maxf", "minf", "mulcf"))
        name = rng.choice(names or (*OUTPUTS, *self.locals))
        place = self.place(name, around, rng.random() < 0.1)
        if rng.random() < 0.12 and name != "S":  # a recurrence
            return f"(setf {place} (+ {self.place(name, around, True)} {self.value(around)}))"
        return f"({head} {place} {self.value(around)})"

    # ---- expressions

    def place(self, name: str, around: list[str], moved: bool = False) -> str:
        axes = ARRAYS.get(name, 2 if name == "Y" else 1)
        if not axes:
            return name
        return f"(aref {name} {' '.join(self.index(around, moved) for _ in range(axes))})"

    def index(self, around: list[str], moved: bool) -> str:
        rng, axis = self.rng, self.rng.choice(around)
        if moved or rng.random() < 0.1:
            return rng.choice((f"(+ {axis} 1)", f"(- {axis} 1)", f"(- N 1 {axis})", "0"))
        return axis

    def value(self, around: list[str], depth: int = 2) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            leaf = rng.random()
            if leaf < 0.12:
                return str(rng.randint(-3, 3))
            if leaf < 0.2:
                return rng.choice(around)
            if leaf < 0.4 and self.scalars:
                return rng.choice(self.scalars)
            name = rng.choice(("C", "W") if rng.random() < 0.5 else (*ARRAYS, "Y", "Z", *self.locals))
            return self.place(name, around)
        a, b = self.value(around, depth - 1), self.value(around, depth - 1)
        if rng.random() < 0.15:
            return f"(if {self.condition(around)} {a} {b})"
        return f"({rng.choice(('+', '-', '*', 'max', 'min'))} {a} {b})"

    def condition(self, around: list[str]) -> str:
        a = self.rng.choice(around)
        if self.rng.random() < 0.5:
            return f"(< {a} {self.rng.choice((*(b for b in around if b != a), '3', f'(- N {a})'))})"
        return f"(< {self.place('C', around)} {self.place('W', around)})"


def random_nest(rng: random.Random) -> str:
    return Nest(rng).text()


__all__ = ["random_nest"]
