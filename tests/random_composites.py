"""Typed random programs in the language itself, both styles, as text.

    text = random_composite(random.Random(seed))

Every program elaborates, but for a few that a check refuses (`SourceError`); values stay small, and operators that are undefined or wild at most arguments
are fed with what they like.  Programs are nested lists until they are printed, so that `shrink.py` can cut them.
"""

from __future__ import annotations

import random
from typing import Any

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


class _Tensors(_Program):
    """Assignments of whole tensors."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.values: list[tuple[str, str, Shape]] = []

    def composite(self) -> Form:
        rng = self.rng
        body: list[Form] = []
        for k in range(rng.choice((0, 0, 1, 1, 2))):
            dtype, shape = self.dtype(), self.shape()
            body.append(["setf", f"v{k}", self.tensor(dtype, shape, rng.randint(1, 2))])
            self.values.append((f"v{k}", dtype, shape))
        outputs = [(self.dtype(), self.shape()) for _ in range(rng.choice((1, 1, 1, 2)))]
        body.append(["return", *(self.tensor(d, s, rng.choice((1, 2, 2, 3))) for d, s in outputs)])
        inputs = [self.declared(n, d, s) for n, (d, s) in self.ports.items()]
        results = [self.declared(f"Y{k}", d, s) for k, (d, s) in enumerate(outputs)]
        return ["composite", "r", [inputs, "->", results], *body]

    def shape(self) -> Shape:
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3))
        return tuple(self.rng.sample(SIZES, rank))

    def leaf(self, dtype: str, shape: Shape) -> Form:
        fits = [n for n, d, s in self.values if d == dtype and s == shape]
        fits += [n for n, (d, s) in self.ports.items() if d == dtype and (s == shape or (s and s == shape[len(shape) - len(s) :]))]
        exact = [n for n in fits if n in self.ports and self.ports[n][1] == shape] + [n for n, d, s in self.values if d == dtype and s == shape]
        if exact and (self.rng.random() < 0.8 or len(self.ports) > 6):
            return self.rng.choice(exact)
        return self.port(dtype, shape)

    def operand(self, dtype: str, shape: Shape, depth: int) -> Form:
        """Something that broadcasts to the shape."""
        roll = self.rng.random()
        if roll < 0.1 and dtype != "bool":
            return self.literal(dtype)
        if roll < 0.25 and shape:
            return self.tensor(dtype, shape[1:], depth)
        if roll < 0.35 and len(shape) == 2:
            return ["unsqueeze", self.tensor(dtype, shape[:1], depth), ":axis", "1"]
        return self.tensor(dtype, shape, depth)

    def tensor(self, dtype: str, shape: Shape, depth: int) -> Form:
        rng, kind = self.rng, kind_of(dtype)
        if depth <= 0:
            return self.leaf(dtype, shape)
        made = [self.pointwise, self.pointwise, self.pointwise, self.choice, self.converted, self.reduced, self.moved]
        if kind == "bool":
            made += [self.compared, self.compared]
        if shape:
            made += [self.running, self.cut]
        if len(shape) >= 2 and kind == "float":
            made += [self.product, self.normalized]
        if shape and shape[0] != "1":
            made.append(self.picked)
        return rng.choice(made)(dtype, shape, depth - 1)

    def pointwise(self, dtype: str, shape: Shape, depth: int) -> Form:
        kind = kind_of(dtype)
        if self.rng.random() < 0.35:
            op = self.rng.choice(_UNARY[kind])
            if kind == "float" and self.rng.random() < 0.15:
                return ["sqrt", ["abs", self.tensor(dtype, shape, depth)]]
            if dtype == "u8" and op in ("-", "abs", "sign"):
                op = "lognot"
            return (
                self.tensor(dtype, shape, depth) if op in ("relu", "sigmoid", "trunc") and dtype == "f16" else [op, self.tensor(dtype, shape, depth)]
            )
        op = self.rng.choice(_BINARY[kind])
        a, b = self.tensor(dtype, shape, depth), self.operand(dtype, shape, depth)
        if op == "over":
            return ["/", a, ["+", "1.0", ["abs", self.tensor(dtype, shape, 0)]]]
        if kind == "float" and self.rng.random() < 0.1:
            return ["fma", a, b, self.operand(dtype, shape, 0)]
        return [op, a, b] if self.rng.random() < 0.8 or op in ("floordiv", "mod", "-") else [op, b, a]

    def compared(self, dtype: str, shape: Shape, depth: int) -> Form:
        other = self.rng.choice((self.main, "f32", "i32"))
        return [self.rng.choice(_COMPARE), self.tensor(other, shape, depth), self.operand(other, shape, depth)]

    def choice(self, dtype: str, shape: Shape, depth: int) -> Form:
        return ["where", self.operand("bool", shape, depth), self.tensor(dtype, shape, depth), self.operand(dtype, shape, depth)]

    def converted(self, dtype: str, shape: Shape, depth: int) -> Form:
        source = self.rng.choice([d for d in (*FLOATS, *INTEGERS, "bool") if d != dtype])
        return ["cast", dtype, self.tensor(source, shape, depth)]

    def reduced(self, dtype: str, shape: Shape, depth: int) -> Form:
        free = [s for s in SIZES if s not in shape]
        if not free or len(shape) > 2:
            return self.pointwise(dtype, shape, depth)
        place = self.rng.randint(0, len(shape))
        whole = (*shape[:place], self.rng.choice(free), *shape[place:])
        kind = kind_of(dtype)
        op = self.rng.choice({"float": ("sum", "max", "min", "mean", "sum", "prod"), "integer": ("max", "min", "sum"), "bool": ("any", "all")}[kind])
        found: Form = [op, self.tensor(dtype, whole, depth), ":axis", str(place)]
        return ["cast", dtype, found] if op == "sum" and kind == "integer" else found

    def moved(self, dtype: str, shape: Shape, depth: int) -> Form:
        rng = self.rng
        if not shape:
            return self.tensor(dtype, shape, depth)
        place = rng.randrange(len(shape))
        x = self.tensor(dtype, shape, depth)
        way = rng.choice(("transpose", "flip", "roll", "pad", "tri", "concat", "slice"))
        if way == "transpose":
            return ["transpose", self.tensor(dtype, shape[::-1], depth)]
        if way == "flip":
            return ["flip", x, ":axis", str(place)]
        if way == "roll":
            return ["roll", x, str(rng.randint(1, 3)), ":axis", str(place)]
        if way == "tri" and len(shape) >= 2:
            return [rng.choice(("tril", "triu")), x]
        here = shape[place]
        if way == "concat":
            both: Form = ["concat", x, self.tensor(dtype, shape, depth - 1), ":axis", str(place)]
            first = rng.randint(0, 1)
            ranges = [["0", here] if first else [here, ["*", "2", here]] if k == place else "_" for k in range(len(shape))]
            return ["slice", both, *[r if k == place else "_" for k, r in enumerate(ranges)]]
        before, after = rng.randint(0, 2), rng.randint(0, 2)
        padded = ["pad", x, *[[str(before), str(after)] if k == place else ["0", "0"] for k in range(len(shape))]]
        start = rng.randint(0, before + after)
        return ["slice", padded, *[[str(start), ["+", here, str(start)]] if k == place else "_" for k in range(len(shape))]]

    def running(self, dtype: str, shape: Shape, depth: int) -> Form:
        kind = kind_of(dtype)
        if kind == "bool":
            return self.pointwise(dtype, shape, depth)
        op = self.rng.choice(("cumsum", "cummax", "cummin"))
        found: Form = [op, self.tensor(dtype, shape, depth), ":axis", str(self.rng.randrange(len(shape)))]
        return ["cast", dtype, found] if op == "cumsum" and kind == "integer" else found

    def cut(self, dtype: str, shape: Shape, depth: int) -> Form:
        """Every element, read backwards."""
        place = self.rng.randrange(len(shape))
        return ["flip", self.tensor(dtype, shape, depth), ":axis", str(place)]

    def product(self, dtype: str, shape: Shape, depth: int) -> Form:
        free = [s for s in SIZES if s not in shape] or list(SIZES)
        k = self.rng.choice(free)
        if len(shape) == 2 and self.rng.random() < 0.4:
            return ["einsum", '"ik,jk->ij"', self.tensor(dtype, (shape[0], k), depth), self.tensor(dtype, (shape[1], k), depth)]
        return ["matmul", self.tensor(dtype, (*shape[:-1], k), depth), self.tensor(dtype, (k, shape[-1]), depth)]

    def normalized(self, dtype: str, shape: Shape, depth: int) -> Form:
        return [self.rng.choice(("softmax", "log_softmax", "standardize")), self.tensor(dtype, shape, depth)]

    def picked(self, dtype: str, shape: Shape, depth: int) -> Form:
        rows = self.rng.choice(SIZES)
        index = next(
            (n for n, (d, s) in self.ports.items() if d == "i64" and s == (shape[0],) and n.startswith("I") and self.limits.get(n) == rows), None
        )
        if index is None:
            index = f"I{len(self.ports)}"
            self.ports[index] = "i64", (shape[0],)
            self.limits[index] = rows
        return ["gather", self.tensor(dtype, (rows, *shape[1:]), depth), index, ":axis", "0"]

    @property
    def limits(self) -> dict[str, str]:
        return self.__dict__.setdefault("_limits", {})


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
    return (_Tensors if rng.random() < 0.6 else _Loops)(rng).composite()
