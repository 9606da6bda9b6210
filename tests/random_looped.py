"""Loops over named tensors, as statements of a random program (see `random_tensors`): guards on positions and on sizes, triangles, recurrences, rows as tensors, `while`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random_tensors import Form, Shape, Tensors


def kind(dtype: str) -> str:
    return "float" if dtype in ("f32", "f64", "f16", "bf16") else "integer" if dtype[0] in "iu" else dtype


def looped(program: Tensors, dtype: str, shape: Shape, depth: int) -> Form:
    """The name of a tensor that loops fill."""
    if dtype in ("bool", "c64") or len(shape) > 2:
        return program.viewed(dtype, shape, depth)
    rng = program.rng
    made = _Loop(program, dtype, shape, depth)
    name = program.fresh("w")
    start = ["zeros", list(shape), ":dtype", dtype] if rng.random() < 0.7 else ["*", "1", program.leaf(dtype, shape)]
    statement = rng.choice((made.mapped, made.mapped, made.summed, made.summed, made.recurrent, made.rows, made.counted))(name)
    program.body += [["setf", name, start], statement]
    program.values.append((name, dtype, shape))
    return name


class _Loop:
    def __init__(self, program: Tensors, dtype: str, shape: Shape, depth: int) -> None:
        self.program, self.rng, self.dtype, self.shape, self.depth = program, program.rng, dtype, shape, min(depth, 1)
        number = program.fresh("")
        self.at = [f"i{number}", f"j{number}"][: len(shape)]
        self.p, self.s = f"p{number}", f"s{number}"
        self.zero = "0.0" if kind(dtype) == "float" else "0"

    def input(self, shape: Shape) -> str:
        return self.program.named(self.dtype, shape, self.depth)

    def around(self, axes: list[str], extents: Shape, body: list[Form]) -> Form:
        for a, e in reversed(list(zip(axes, extents, strict=True))):
            down = self.rng.random() < 0.1
            body = [["loop", [a, f"(- {e} 1)", "-1", "-1"], *body] if down else ["dotimes", [a, e], *body]]
        return body[0]

    def read(self) -> Form:
        """An element of this position, of its mirror, or of a neighbour."""
        rng, x, at = self.rng, self.input(self.shape), list(self.at)
        roll, k = rng.random(), rng.randrange(len(at))
        e = self.shape[k]
        if roll < 0.15:
            at[k] = f"(- {e} {at[k]} 1)"
        elif roll < 0.35:
            here, at[k] = at[k], f"(- {at[k]} 1)"
            return ["if", [">", here, "0"], ["aref", x, *at], self.zero]
        elif roll < 0.45:
            here, at[k] = at[k], f"(+ {at[k]} 2)"
            return ["if", ["<", f"(+ {here} 2)", e], ["aref", x, *at], ["aref", x, *self.at]]
        return ["aref", x, *at]

    def value(self, depth: int = 2) -> Form:
        rng = self.rng
        if depth == 0:
            return self.read() if rng.random() < 0.8 else ["cast", self.dtype, rng.choice(self.at)]
        a = self.value(depth - 1)
        roll = rng.random()
        if roll < 0.15:
            return ["if", self.condition(), a, self.value(depth - 1)]
        if roll < 0.3:
            return [
                rng.choice(("abs", "sin", "tanh", "floor", "exp2")) if kind(self.dtype) == "float" and depth < 2 else "+",
                *([a] if kind(self.dtype) == "float" and depth < 2 else [a, a]),
            ]
        return [rng.choice(("+", "-", "*", "max", "min")), a, self.value(depth - 1)]

    def condition(self) -> Form:
        rng = self.rng
        options: list[Any] = [
            ["<", self.at[0], "3"], ["=", ["mod", self.at[-1], "2"], "0"], ["<", self.shape[0], "4"], [">=", self.shape[-1], "8"],
            [">", self.read(), self.program.literal(self.dtype)], ["or", ["<", self.at[0], "1"], [">", self.at[-1], "4"]],
        ]  # fmt: skip
        if len(self.at) == 2:
            options += [["<=", self.at[1], self.at[0]], ["=", ["floordiv", self.at[0], "4"], ["floordiv", self.at[1], "4"]]]
        return rng.choice(options)

    def guarded(self, store: Form) -> Form:
        return ["if", self.condition(), store] if self.rng.random() < 0.4 else store

    def mapped(self, name: str) -> Form:
        place = ["aref", name, *self.at]
        body = [self.guarded([self.rng.choice(("setf", "setf", "incf", "maxf")), place, self.value()])]
        if self.rng.random() < 0.3:
            body.append(self.guarded([self.rng.choice(("setf", "decf", "mulcf", "minf")), place, self.value(1)]))
        return self.around(self.at, self.shape, body)

    def summed(self, name: str) -> Form:
        """Products added up along an axis of its own, along a triangle of it, or where a condition holds."""
        rng, program = self.rng, self.program
        e = rng.choice((program.size(), self.shape[0]))
        x = self.input((*self.shape[:1], e))
        term: Form = ["aref", x, self.at[0], self.p]
        if rng.random() < 0.7:
            y = self.input((e, *self.shape[1:]))
            term = ["*", term, ["aref", y, self.p, *self.at[1:]]]
        way = rng.choice(("incf", "incf", "incf", "maxf", "minf"))
        bounds = [self.p, "0", e]
        if e == self.shape[0] and rng.random() < 0.5:
            bounds = rng.choice(
                ([self.p, "0", f"(+ {self.at[0]} 1)"], [self.p, self.at[0], e], [self.p, f"(+ {self.at[0]} 1)", e], [self.p, "0", e, "2"])
            )
        place: Form = ["aref", name, *self.at]
        if rng.random() < 0.3:
            term = ["if", rng.choice((["<=", self.p, self.at[-1]], ["=", ["mod", self.p, "3"], "0"], [">", term, self.zero])), term, self.zero]
        inner: Form = ["loop", bounds, self.guarded([way, place, term])]
        if rng.random() < 0.4:
            body: list[Form] = [["set", self.s, self.program.literal(self.dtype) if kind(self.dtype) != "float" else ["cast", self.dtype, "0.5"]]]
            body[0][2] = ["cast", self.dtype, body[0][2]] if isinstance(body[0][2], str) else body[0][2]
            body += [["loop", bounds, self.guarded([way, self.s, term])], ["setf", place, self.s]]
            return self.around(self.at, self.shape, body)
        return self.around(self.at, self.shape, [inner])

    def recurrent(self, name: str) -> Form:
        """Along the first axis, from the one before."""
        first, *rest = self.at
        x = self.input(self.shape)
        scale = "0.5" if kind(self.dtype) == "float" else "2"
        before: Form = ["*", scale, ["aref", name, ["-", first, "1"], *rest]]
        value = [self.rng.choice(("+", "-", "max")), before, ["aref", x, first, *rest]]
        inner = (
            self.around(rest, self.shape[1:], [self.guarded(["setf", ["aref", name, *self.at], value])])
            if rest
            else self.guarded(["setf", ["aref", name, first], value])
        )
        return ["loop", [first, "1", self.shape[0]], inner]

    def rows(self, name: str) -> Form:
        """Tensor style on the rows of an iteration."""
        rng = self.rng
        first, e = self.at[0], self.shape[0]
        if len(self.shape) == 1:
            x = self.input((e, self.program.size()))
            op = rng.choice(("sum", "max", "min"))
            found: Form = [op, ["aref", x, first]]
            found = ["cast", self.dtype, found] if op == "sum" else found
            return ["dotimes", [first, e], self.guarded([rng.choice(("setf", "incf")), ["aref", name, first], found])]
        x, y = self.input(self.shape), self.input(self.shape[1:])
        row: Form = ["aref", x, first]
        value = rng.choice((["+", row, y], ["flip", row, ":axis", "0"], ["max", row, ["*", "2", y]], ["where", [">", row, self.zero], row, y]))
        if kind(self.dtype) == "float" and rng.random() < 0.4:
            value = rng.choice((["softmax", row], ["cumsum", value, ":axis", "0"], ["-", value, ["mean", row]]))
        if rng.random() < 0.3:  # with a row that is carried on
            self.program.body.append(["setf", f"h{self.s}", ["*", "1", y]])
            carried = ["setf", f"h{self.s}", ["max", f"h{self.s}", value]]
            return ["dotimes", [first, e], carried, ["setf", ["aref", name, first], f"h{self.s}"]]
        return ["dotimes", [first, e], [rng.choice(("setf", "incf")), ["aref", name, first], value]]

    def counted(self, name: str) -> Form:
        """As long as a number is small, or by a bound that is data."""
        rng, x = self.rng, self.input(self.shape)
        element: Form = ["aref", x, *self.at]
        if rng.random() < 0.5:
            start = ["set", self.s, element]
            step = ["set", self.s, ["+", self.s, self.s, "1.0" if kind(self.dtype) == "float" else "1"]]
            loop = ["while", ["<", self.s, "9"], ":max", str(rng.randint(1, 6)), step]
            return self.around(self.at, self.shape, [start, loop, ["setf", ["aref", name, *self.at], self.s]])
        ends = self.program.port("i64", self.shape[:1], "E")
        y = self.input((self.program.size(),))
        add = ["incf", ["aref", name, *self.at], ["*", element, ["aref", y, self.p]]]
        return self.around(self.at, self.shape, [["loop", [self.p, "0", ["aref", ends, self.at[0]]], add]])


__all__ = ["looped"]
