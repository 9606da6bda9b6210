"""Typed random programs in the language itself, both styles, as nested lists of words.

    text = show(random_composite(random.Random(seed)))

Every program elaborates, but for a few that a check refuses (`SourceError`); values stay small, and operators that are undefined or wild at most arguments
are fed with what they like.  Programs are nested lists until they are printed, so that what fails can be cut (`random_runs.shrunk`).  Whole tensors are `random_tensors`; here are nests of loops
that store and add up.
"""

from __future__ import annotations

import random
from typing import Any

from random_tensors import Tensors

Form = Any  # a word, or a list of forms
Shape = tuple[str, ...]

SIZES = ("M", "N", "K")
FLOATS, INTEGERS = ("f32", "f64", "f16"), ("i32", "i64", "u8", "i8")
_UNARY = {
    "float": ("-", "abs", "sin", "cos", "tanh", "floor", "round", "sign", "erf", "exp", "trunc", "relu", "sigmoid"),
    "integer": ("-", "abs", "sign", "lognot"),
    "bool": ("not",),
}
_BINARY = {
    "float": ("+", "-", "*", "max", "min", "over", "+", "*"), "integer": ("+", "-", "*", "max", "min", "logand", "logor", "logxor", "floordiv", "mod"),
    "bool": ("and", "or"),
}  # fmt: skip
_COMPARE = ("<", "<=", ">", ">=", "=", "/=")


def show(form: Form) -> str:
    return form if isinstance(form, str) else f"({' '.join(map(show, form))})"


def kind_of(dtype: str) -> str:
    return "bool" if dtype == "bool" else "float" if dtype in FLOATS else "integer"


class _Program:
    """What both styles share: ports, and where leaves come from."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ports: dict[str, tuple[str, Shape]] = {}
        self.main = rng.choice(("f32", "f32", "f32", "f64", "i32", "f16", "i64", "u8"))

    def dtype(self) -> str:
        return self.rng.choice((self.main, self.main, self.main, "f32", "i32", "bool"))

    def port(self, dtype: str, shape: Shape) -> str:
        name = f"{'ABCDEFGH'[len(self.ports) % 8]}{len(self.ports)}"
        self.ports[name] = dtype, shape
        return name

    def literal(self, dtype: str) -> str:
        return str(self.rng.choice((0.5, 2.0, -1.5, 0.0, 1.0, 3.0)) if dtype in FLOATS else self.rng.randint(0, 5))

    def declared(self, name: str, dtype: str, shape: Shape) -> str:
        order = ""
        if len(shape) == 2 and self.rng.random() < 0.2:
            order = "<1 0>"
        return f"{name}{{{dtype}}}[{' '.join(shape)}]{order}"


class _Loops(_Program):
    """Scalar loops over one or two axes, stores and accumulations, locals, conditions, recurrences."""

    AXES = {"i": "M", "j": "N", "p": "K"}

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        if self.main not in ("f32", "f64", "i32"):
            self.main = "f32"
        self.locals: list[str] = []
        self.written: dict[str, Shape] = {}
        self.count = 0

    def composite(self) -> Form:
        rng = self.rng
        body = [self.nest() for _ in range(rng.choice((1, 1, 1, 2)))]
        inputs, outputs = [], []
        for name, (dtype, shape) in self.ports.items():
            inputs.append(self.declared(name, dtype, shape))
        for name, shape in self.written.items():
            port = self.declared(name, self.main, shape)
            if name.startswith("U"):  # updated in place
                inputs.append(port)
                outputs.append(name)
            else:
                outputs.append(port)
        return ["composite", "r", [inputs, "->", outputs], *body]

    def nest(self) -> Form:
        rng = self.rng
        axes = rng.choice((["i"], ["i", "j"], ["i", "j"], ["j", "i"], ["i", "p", "j"]))
        self.locals = []
        body = self.block(axes)
        if len(axes) == 1 and rng.random() < 0.25:
            body = [self.recurrence(axes[0])]
            return ["loop", [axes[0], "1", self.AXES[axes[0]].lower()], *body]
        for axis in reversed(axes):
            size = self.AXES[axis].lower()
            head = (
                ["dotimes", [axis, size]] if rng.random() < 0.8 else ["loop", rng.choice(([axis, "0", size], [axis, ["-", size, "1"], "-1", "-1"]))]
            )
            body = [[*head, *body]]
        return body[0]

    def block(self, axes: list[str]) -> list[Form]:
        rng = self.rng
        found: list[Form] = []
        if rng.random() < 0.4:
            self.count += 1
            name = f"s{self.count}"
            found.append(["set", name, self.value(axes, 2)])
            self.locals.append(name)
        if rng.random() < 0.4 and "p" not in axes:
            self.count += 1
            name = f"t{self.count}"
            found.append(["set", name, self.zero()])
            found.append(["dotimes", ["p", "k"], [rng.choice(("incf", "maxf")), name, self.value([*axes, "p"], 2)]])
            self.locals.append(name)
        for _ in range(rng.choice((1, 1, 2))):
            found.append(self.store(axes))
        return found

    def zero(self) -> str:
        return "0.0" if self.main in FLOATS else "0"

    def target(self, axes: list[str]) -> tuple[str, list[str]]:
        rng = self.rng
        use = [a for a in axes if rng.random() < 0.85] or axes[:1]
        use = sorted(use, key="ijp".index) if rng.random() < 0.8 else use
        shape = tuple(self.AXES[a] for a in use)
        known = [n for n, s in self.written.items() if s == shape]
        if known and rng.random() < 0.5:
            return rng.choice(known), use
        name = f"{rng.choice('UY')}{len(self.written)}"
        self.written[name] = shape
        return name, use

    def store(self, axes: list[str]) -> Form:
        rng = self.rng
        name, use = self.target(axes)
        place = ["aref", name, *(self.backwards(a) if rng.random() < 0.1 else a for a in use)]
        value = self.value(axes, rng.choice((1, 2, 2, 3)))
        covers = len(use) == len(axes)
        way = rng.choice(("setf", "setf", "incf") if covers else ("incf", "incf", "maxf"))
        made: Form = [way, place, value]
        if rng.random() < 0.25:
            made = ["if", self.condition(axes), made] if rng.random() < 0.6 else ["if", self.condition(axes), made, [way, place, self.value(axes, 1)]]
        return made

    def recurrence(self, axis: str) -> Form:
        name = f"U{len(self.written)}"
        self.written[name] = (self.AXES[axis],)
        self.locals = []
        scale = ["*", "0.5" if self.main in FLOATS else "2", ["aref", name, ["-", axis, "1"]]]
        return ["setf", ["aref", name, axis], ["+", scale, self.value([axis], 2)]]

    def backwards(self, axis: str) -> Form:
        return ["-", self.AXES[axis].lower(), axis, "1"]

    def read(self, axes: list[str]) -> Form:
        rng = self.rng
        use = rng.sample(axes, rng.randint(1, len(axes)))
        shape = tuple(self.AXES[a] for a in use)
        fits = [n for n, (d, s) in self.ports.items() if d == self.main and s == shape] + [n for n, s in self.written.items() if s == shape]
        name = rng.choice(fits) if fits and (rng.random() < 0.7 or len(self.ports) > 5) else self.port(self.main, shape)
        at: list[Form] = [self.backwards(a) if rng.random() < 0.12 else a for a in use]
        if rng.random() < 0.15:  # a neighbour, where there is one
            a = use[0]
            return ["if", ["<", a, "1"], self.zero(), ["aref", name, ["-", a, "1"], *at[1:]]]
        return ["aref", name, *at]

    def value(self, axes: list[str], depth: int) -> Form:
        rng, kind = self.rng, kind_of(self.main)
        if depth <= 0:
            roll = rng.random()
            if roll < 0.15:
                return self.literal(self.main)
            if roll < 0.3 and self.locals:
                return rng.choice(self.locals)
            if roll < 0.4:
                return ["cast", self.main, rng.choice(axes)]
            return self.read(axes)
        a = self.value(axes, depth - 1)
        if rng.random() < 0.25:
            op = rng.choice(("-", "abs", "sin", "tanh", "floor") if kind == "float" else ("-", "abs"))
            return [op, a if not isinstance(a, str) or not a[0].isdigit() else self.read(axes)]
        b = self.value(axes, depth - 1)
        if rng.random() < 0.15:
            return ["if", self.condition(axes), a, b]
        return [rng.choice(("+", "-", "*", "max", "min")), self.read(axes) if isinstance(a, str) and a[:1] in "-0123456789" else a, b]

    def condition(self, axes: list[str]) -> Form:
        rng = self.rng
        if rng.random() < 0.3 and len(axes) > 1:
            return [rng.choice(("<", "<=", "=")), axes[0], axes[1]]
        if rng.random() < 0.2:
            return ["=", ["mod", rng.choice(axes), "2"], "0"]
        return [rng.choice(_COMPARE[:4]), self.read(axes), self.literal(self.main)]


def random_composite(rng: random.Random) -> Form:
    """One program as nested lists; `show` prints it."""
    return (Tensors if rng.random() < 0.75 else _Loops)(rng).composite()
