"""Typed random programs of the parts that real ones are made of: chains of views, contractions of any form, masks, normalised weights, gathers, scans, loops, updates in place, all dtypes.

    form = Tensors(random.Random(seed)).composite()

A tensor is made for a shape that is asked for, so each view is the inverse of one: of `(* 2 M)` elements every second is read where M are wanted.  Extents are text as the language has it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

Form = Any  # a word, or a list of forms
Shape = tuple[str, ...]
Maker = Callable[[str, Shape, int], Form]

FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")
DTYPES = (*FLOATS, *INTEGERS, "bool", "c64")
FIXED = ("0", "1", "2", "3", "5", "7", "8", "13", "16", "17", "32", "33")
_UNARY = {
    "float": ("-", "abs", "sin", "tanh", "floor", "round", "sign", "erf", "trunc", "relu", "sigmoid", "exp2", "isnan"),
    "integer": ("-", "abs", "sign", "lognot"), "bool": ("not",), "complex": ("-", "conj"),
}  # fmt: skip
_BINARY = {
    "float": ("+", "-", "*", "max", "min", "/", "mod"), "integer": ("+", "-", "*", "max", "min", "logand", "logor", "logxor", "floordiv", "mod", "ash"),
    "bool": ("and", "or"), "complex": ("+", "-", "*"),
}  # fmt: skip
_COMPARE = ("<", "<=", ">", ">=", "=", "/=")


def kind_of(dtype: str) -> str:
    return "float" if dtype in FLOATS else "integer" if dtype in INTEGERS else "complex" if dtype == "c64" else "bool"


def axis(k: int | str) -> list[str]:
    return [":axis", str(k)]


class Tensors:
    """One program.  `tensor` makes a form of a dtype and a shape; what is named on the way are statements of the body, and may be read again."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        names = ["M", "N", "K"] if rng.random() < 0.7 else rng.sample(FIXED, 3)
        self.sizes = [n if rng.random() < 0.85 else rng.choice(FIXED) for n in names]
        main = rng.choice(("f32",) * 6 + ("f64", "f16", "bf16", "i32", "i64", "u8", "i8", "i16", "u32", "c64"))
        self.dtypes = (main,) * 6 + (rng.choice(DTYPES), rng.choice(FLOATS), "f32", "i32", "bool")
        self.ports: dict[str, tuple[str, Shape]] = {}
        self.values: list[tuple[str, str, Shape]] = []
        self.body: list[Form] = []
        self.count = 0

    def composite(self) -> Form:
        rng = self.rng
        for _ in range(rng.choice((0, 1, 1, 2))):
            self.named(self.dtype(), self.shape(), rng.randint(1, 2))
        outputs = [(self.dtype(), self.shape()) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        results = [self.tensor(d, s, rng.choice((1, 2, 2, 3))) for d, s in outputs]
        inputs = [self.declared(n, d, s) for n, (d, s) in self.ports.items()]
        known = {e for _, shape in self.ports.values() for e in shape}
        inputs += [f"Z{e}{{bool}}[{e}]" for e in ("M", "N", "K") if e not in known]  # read by nobody: it says what the size is
        names, free = [], list(self.ports)
        for k, (dtype, shape) in enumerate(outputs):  # some are updated in place, and read in another order than they are written in
            same = [n for n in free if self.ports[n] == (dtype, shape) and shape]
            if same and rng.random() < 0.4:
                free.remove(same[0])
                names.append(same[0])
            else:
                names.append(self.declared(f"Y{k}", dtype, shape))
        return ["composite", "r", [inputs, "->", names], *self.body, ["return", *results]]

    # ---- dtypes, shapes, leaves

    def dtype(self) -> str:
        return self.rng.choice(self.dtypes)

    def size(self) -> str:
        return self.rng.choice(self.sizes)

    def shape(self) -> Shape:
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3))
        return tuple(self.size() if self.rng.random() < 0.85 else self.rng.choice(("1", "2", "4")) for _ in range(rank))

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def declared(self, name: str, dtype: str, shape: Shape) -> str:
        order = [str(k) for k in range(len(shape))]
        if len(shape) >= 2 and self.rng.random() < 0.2:
            self.rng.shuffle(order)
        return f"{name}{{{dtype}}}[{' '.join(shape)}]" + (f"<{' '.join(order)}>" if order != sorted(order) else "")

    def literal(self, dtype: str) -> str:
        return str(self.rng.choice((0.5, 2.0, -1.5, 0.0, 1.0, 3.0)) if kind_of(dtype) in ("float", "complex") else self.rng.randint(0, 5))

    def port(self, dtype: str, shape: Shape, letter: str = "A") -> str:
        name = self.fresh(letter)
        self.ports[name] = dtype, shape
        return name

    def leaf(self, dtype: str, shape: Shape) -> Form:
        known = [n for n, d, s in self.values if (d, s) == (dtype, shape)]
        known += [n for n, port in self.ports.items() if port == (dtype, shape) and n[0] == "A"]
        if known and (self.rng.random() < 0.7 or len(self.ports) > 6):
            return self.rng.choice(known)
        if self.rng.random() < 0.1 and dtype != "bool":
            return ["full", list(shape), self.literal(dtype), ":dtype", dtype] if shape and dtype != "c64" else self.port(dtype, shape)
        if self.rng.random() < 0.06 and len(shape) == 1 and kind_of(dtype) in ("float", "integer"):
            return ["cast", dtype, ["iota", shape[0]]]
        return self.port(dtype, shape)

    def named(self, dtype: str, shape: Shape, depth: int) -> str:
        return self.name(self.tensor(dtype, shape, depth), dtype, shape)

    def name(self, form: Form, dtype: str, shape: Shape) -> str:
        if isinstance(form, str) and form[0] == "v":
            return form
        name = self.fresh("v")
        self.body.append(["setf", name, form])
        self.values.append((name, dtype, shape))
        return name

    # ---- tensors

    def tensor(self, dtype: str, shape: Shape, depth: int) -> Form:
        if depth <= 0:
            return self.leaf(dtype, shape)
        kind = kind_of(dtype)
        made: list[Maker] = [self.pointwise, self.pointwise, self.choice, self.converted, self.reduced, self.reduced, self.shared]
        if kind == "bool":
            made += [self.compared, self.compared, self.mask]
        if shape:
            made += [self.viewed, self.viewed, self.viewed, self.running, self.picked, self.looped]
        if kind != "bool" and dtype not in ("i8", "u8", "i16", "u16"):
            made += [self.contracted, self.contracted]
        if len(shape) >= 2 and kind == "float":
            made += [self.attended, self.attended, self.normalized]
        return self.rng.choice(made)(dtype, shape, depth - 1)

    def shared(self, dtype: str, shape: Shape, depth: int) -> Form:
        return self.named(dtype, shape, depth)

    def operand(self, dtype: str, shape: Shape, depth: int) -> Form:
        """Something that broadcasts to the shape."""
        roll, rng = self.rng.random(), self.rng
        if roll < 0.1 and dtype != "bool":
            return self.literal(dtype)
        if roll < 0.25 and shape:
            return self.tensor(dtype, shape[1:], depth)
        if roll < 0.4 and len(shape) >= 2:
            k = rng.randrange(len(shape))
            return ["unsqueeze", self.tensor(dtype, shape[:k] + shape[k + 1 :], depth), *axis(k)]
        return self.tensor(dtype, shape, depth)

    def pointwise(self, dtype: str, shape: Shape, depth: int) -> Form:
        kind, rng = kind_of(dtype), self.rng
        a = self.tensor(dtype, shape, depth)
        if rng.random() < 0.3:
            op = rng.choice(_UNARY[kind])
            if op == "isnan":
                return ["where", ["isnan", a], self.literal(dtype), a]
            if op == "exp2" or (op in ("relu", "sigmoid") and dtype != "f32"):
                return ["exp2", ["tanh", a]]
            return ["lognot", a] if dtype[0] == "u" and op in ("-", "abs", "sign") else [op, a]
        op, b = rng.choice(_BINARY[kind]), self.operand(dtype, shape, depth)
        if op in ("/", "mod") and kind == "float":
            return [op, a, ["+", "1.0", ["abs", b if not isinstance(b, str) else self.tensor(dtype, shape, 0)]]]
        if op == "ash":
            return ["ash", a, str(rng.randint(-3, 3))]
        return [op, a, b]

    def compared(self, dtype: str, shape: Shape, depth: int) -> Form:
        other = self.rng.choice([d for d in self.dtypes if d not in ("bool", "c64")])
        return [self.rng.choice(_COMPARE), self.tensor(other, shape, depth), self.operand(other, shape, depth)]

    def choice(self, dtype: str, shape: Shape, depth: int) -> Form:
        condition = self.mask("bool", shape, depth) if len(shape) >= 2 and self.rng.random() < 0.5 else self.operand("bool", shape, depth)
        return ["where", condition, self.tensor(dtype, shape, depth), self.operand(dtype, shape, depth)]

    def converted(self, dtype: str, shape: Shape, depth: int) -> Form:
        if dtype == "c64":
            return ["complex", self.tensor("f32", shape, depth), self.tensor("f32", shape, depth)]
        if dtype == "f32" and self.rng.random() < 0.15:
            return [self.rng.choice(("real", "imag", "abs")), self.tensor("c64", shape, depth)]
        return ["cast", dtype, self.tensor(self.rng.choice([d for d in DTYPES if d not in (dtype, "c64")]), shape, depth)]

    # ---- reductions, scans, products

    def reduced(self, dtype: str, shape: Shape, depth: int) -> Form:
        rng, kind = self.rng, kind_of(dtype)
        if len(shape) > 2:
            return self.viewed(dtype, shape, depth)
        places = sorted(rng.sample(range(len(shape) + 2), rng.choice((1, 1, 2))))
        whole = list(shape)
        for k in places:
            whole.insert(k, self.size()) if k <= len(whole) else whole.append(self.size())
        places = [min(k, len(whole) - 1) for k in places]
        if len(set(places)) < len(places) or len(whole) - len(places) != len(shape):
            return self.pointwise(dtype, shape, depth)
        if tuple(e for k, e in enumerate(whole) if k not in places) != shape:
            return self.pointwise(dtype, shape, depth)
        over: Form = str(places[0]) if len(places) == 1 else [str(k) for k in places]
        if dtype == "i64" and len(places) == 1 and rng.random() < 0.4:
            return [rng.choice(("argmax", "argmin")), self.tensor(rng.choice(("f32", "i32", "f16")), tuple(whole), depth), ":axis", over]
        ops = {"float": ("sum", "sum", "max", "min", "mean", "var", "prod", "logsumexp"), "integer": ("max", "min", "sum"), "bool": ("any", "all"),
               "complex": ("sum", "mean")}[kind]  # fmt: skip
        op = rng.choice(ops)
        x = self.tensor(dtype, tuple(whole), depth)
        if kind == "float" and rng.random() < 0.25:  # around another reduction of the same
            name = self.name(x, dtype, tuple(whole))
            x = [rng.choice(("-", "*", "max")), name, [rng.choice(("mean", "max", "sum")), name, ":axis", over, ":keepdims", "t"]]
        found: Form = [op, x, ":axis", over]
        return ["cast", dtype, found] if op == "sum" and kind == "integer" else found

    def running(self, dtype: str, shape: Shape, depth: int) -> Form:
        kind = kind_of(dtype)
        if kind == "bool":
            return self.pointwise(dtype, shape, depth)
        op = self.rng.choice(("cumsum", "cummax", "cummin") if kind != "complex" else ("cumsum",))
        found: Form = [op, self.tensor(dtype, shape, depth), *axis(self.rng.randrange(len(shape)))]
        return ["cast", dtype, found] if op == "cumsum" and kind == "integer" else found

    def contracted(self, dtype: str, shape: Shape, depth: int) -> Form:
        """An einsum of two or three operands; each letter is read by some of them, a contracted one mostly by two."""
        rng = self.rng
        out = "abcdef"[: len(shape)]
        extents = dict(zip(out, shape, strict=True)) | {x: self.size() for x in "kl"[: rng.choice((1, 1, 2))]}
        operands = [""] * rng.choice((2, 2, 2, 3))
        for letter in extents:
            readers = rng.sample(range(len(operands)), 2 if letter in "kl" and rng.random() < 0.8 else 1 if rng.random() < 0.8 else 2)
            for r in readers:
                operands[r] += letter
        operands = ["".join(rng.sample(o, len(o))) for o in operands if o] or ["k"]
        if len(operands) == 1 and rng.random() < 0.2 and len(operands[0]) == 1:
            operands[0] *= 2  # a diagonal
        if any(len(o) > 3 for o in operands):
            return self.pointwise(dtype, shape, depth)
        values = [self.tensor(dtype, tuple(extents[x] for x in o), depth) for o in operands]
        return ["einsum", f'"{",".join(operands)}->{out}"', *values]

    # ---- masks and weights

    def mask(self, dtype: str, shape: Shape, depth: int) -> Form:
        rng = self.rng
        if len(shape) < 2:
            return self.compared(dtype, shape, depth)
        rows, columns = shape[-2:]
        i, j = ["unsqueeze", ["iota", rows], *axis(-1)], ["iota", columns]

        def one() -> Form:
            w = str(rng.choice((1, 2, 3, 5, 8)))
            row = lambda dtype: ["unsqueeze", self.leaf(dtype, (rows,)), *axis(-1)]  # noqa: E731
            return rng.choice((
                lambda: ["<=", j, i], lambda: ["<=", j, ["+", i, ["-", columns, rows]]], lambda: ["<", ["abs", ["-", i, j]], w],
                lambda: ["and", ["<=", j, i], ["<", ["-", i, j], w]], lambda: ["=", ["floordiv", i, w], ["floordiv", j, w]],
                lambda: ["=", ["mod", ["+", i, j], w], "0"], lambda: ["<", j, w], lambda: [">", i, j],
                lambda: self.leaf("bool", (rows, columns)), lambda: ["=", row("i32"), self.leaf("i32", (columns,))],
                lambda: ["<", j, row("i64")], lambda: self.leaf("bool", (columns,)), lambda: ["and", row("bool"), self.leaf("bool", (columns,))],
            ))()  # fmt: skip

        found = one()
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            found = [rng.choice(("or", "and")), found, one()]
        if rng.random() < 0.15:
            found = ["not", found]
        return ["expand", found, *shape] if rng.random() < 0.3 else ["and", ["full", list(shape), "t", ":dtype", "bool"], found]

    def scores(self, dtype: str, shape: Shape, depth: int) -> Form:
        rng = self.rng
        *lead, rows, columns = shape
        d = self.size()
        head = "fgh"[: len(lead)]
        s: Form = self.tensor(dtype, shape, depth) if rng.random() < 0.3 else [
            "einsum", f'"{head}id,{head}jd->{head}ij"', self.tensor(dtype, (*lead, rows, d), depth), self.tensor(dtype, (*lead, columns, d), depth)
        ]  # fmt: skip
        for _ in range(rng.choice((0, 1, 1, 2))):
            s = rng.choice((
                lambda s: ["*", "0.5", s], lambda s: ["tanh", s], lambda s: ["+", s, self.operand(dtype, shape, depth)],
                lambda s: ["*", s, ["unsqueeze", self.leaf(dtype, (*lead, rows)), *axis(-1)]],
                lambda s: ["-", s, ["*", "0.25", ["abs", ["-", ["unsqueeze", ["iota", rows], *axis(-1)], ["iota", columns]]]]],
            ))(s)  # fmt: skip
        if rng.random() < 0.6:
            s = ["where", self.mask("bool", (rows, columns), depth), s, rng.choice(("-inf", "-inf", "-1000.0", "0.0"))]
        return s

    def weights(self, dtype: str, shape: Shape, depth: int) -> Form:
        rng = self.rng
        s = self.name(self.scores(dtype, shape, depth), dtype, shape)
        over = rng.choice(("-1", "-1", "-1", "-1", "-2", ["-2", "-1"]))
        fold = lambda op, x: [op, x, ":axis", over, ":keepdims", "t"]  # noqa: E731
        way = rng.choice(("softmax", "chain", "chain", "kernel", "squares", "difference", "chosen", "entropy"))
        if way == "softmax":
            return ["softmax", s]
        if way == "kernel":
            return [rng.choice(("tanh", "sin")), s]
        if way == "squares":
            e = self.name(["*", s, s] if rng.random() < 0.5 else ["max", s, "0.0"], dtype, shape)
            return ["/", e, ["+", fold("sum", e), "1.0"]]
        e = self.name(["exp", ["-", s, fold("max", s)]], dtype, shape)
        if way == "chosen":
            e = self.name(["where", self.mask("bool", shape[-2:], depth), e, "0.0"], dtype, shape)
        total = fold("sum", e)
        p = ["/", e, ["+", total, "1.0"] if rng.random() < 0.3 else total]
        if way == "difference":
            return ["-", p, ["softmax", ["*", "0.5", s]]]
        if way == "entropy":
            return ["*", p, ["-", s, ["logsumexp", s, ":axis", "-1", ":keepdims", "t"]]]
        return p

    def attended(self, dtype: str, shape: Shape, depth: int) -> Form:
        rng = self.rng
        *lead, rows, columns = shape
        k = self.size()
        head = "fgh"[: len(lead)]
        p = self.weights(dtype, (*lead, rows, k), max(0, depth - 1))
        v = self.tensor(dtype, (*lead, k, columns), depth - 1)
        found: Form = ["matmul", p, v] if rng.random() < 0.6 else ["einsum", f'"{head}ij,{head}je->{head}ie"', p, v]
        return ["*", found, self.operand(dtype, shape, 0)] if rng.random() < 0.2 else found

    def normalized(self, dtype: str, shape: Shape, depth: int) -> Form:
        if self.rng.random() < 0.5:
            return self.weights(dtype, shape, depth)
        return [self.rng.choice(("softmax", "log_softmax", "standardize")), self.tensor(dtype, shape, depth)]

    # ---- views

    def viewed(self, dtype: str, shape: Shape, depth: int) -> Form:
        from random_views import viewed

        return viewed(self, dtype, shape, depth)

    def picked(self, dtype: str, shape: Shape, depth: int) -> Form:
        """By an index of data, in one of the ways that there are."""
        rng = self.rng
        way, rows = rng.choice(("gather", "gather", "along", "scatter", "scatter")), self.size()
        if way == "gather":
            k = rng.randrange(len(shape))
            index: Form = self.port("i64" if rng.random() < 0.7 else "i32", (shape[k],), "I")
            if rng.random() < 0.2:
                index = ["mod", index, rows]
            return ["gather", self.tensor(dtype, (*shape[:k], rows, *shape[k + 1 :]), depth), index, *axis(k)]
        if way == "along" and len(shape) <= 2:
            k = rng.randrange(len(shape))
            return ["take-along", self.tensor(dtype, (*shape[:k], rows, *shape[k + 1 :]), depth), self.port("i64", shape, "I"), *axis(k)]
        combine = rng.choice(("set", "add", "max", "min", "mul") if kind_of(dtype) in ("float", "integer") else ("set",))
        updates = self.tensor(dtype, (rows, *shape[1:]), depth)
        return ["scatter", self.tensor(dtype, shape, depth), self.port("i64", (rows,), "I"), updates, ":combine", combine]

    # ---- loops

    def looped(self, dtype: str, shape: Shape, depth: int) -> Form:
        from random_looped import looped

        return looped(self, dtype, shape, depth)


__all__ = ["DTYPES", "FIXED", "Form", "Sequence", "Shape", "Tensors", "axis", "kind_of"]
