"""Views of random tensors, as forms of a random program (see `random_tensors`): each is the inverse of one that gives the tensor, so of `(* 2 M)` elements every second is read where M are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_tensors import axis, kind_of

if TYPE_CHECKING:
    from random_tensors import Form, Shape, Tensors


def viewed(program: Tensors, dtype: str, shape: Shape, depth: int) -> Form:
    """A tensor as a view of another: the inverse of what makes that one of it."""
    rng = program.rng
    if not shape:
        return ["slice", program.tensor(dtype, (rng.choice(("2", "3")),), depth), rng.choice(("0", "-1", "1"))]
    k = rng.randrange(len(shape))
    e = shape[k]

    def put(*extents: str) -> Shape:
        return (*shape[:k], *extents, *shape[k + 1 :])

    def only(form: Form, otherwise: Form = "_") -> list[Form]:
        return [form if n == k else otherwise for n in range(len(shape))]

    def inner(*extents: str) -> Form:
        return program.tensor(dtype, put(*extents), depth)

    def transposed() -> Form:
        order = rng.sample(range(len(shape)), len(shape))
        given = [""] * len(shape)
        for n, a in enumerate(order):
            given[a] = shape[n]
        return ["transpose", program.tensor(dtype, tuple(given), depth), *map(str, order)]

    def merged() -> Form:
        two = str(rng.choice((2, 3)))
        made = inner(e, two) if rng.random() < 0.5 else inner(two, e)
        flat = ["reshape", made, *put(f"(* {two} {e})")]
        return ["slice", flat, *only([rng.choice(("0", "1", e)), f"(+ {e} {e})", "2"] if two == "2" and rng.random() < 0.3 else ["0", e])]

    def cut() -> Form:
        if len(shape) < 2:
            return ["reshape", program.tensor(dtype, (e, "1") if rng.random() < 0.5 else ("1", e), depth), e]
        n = rng.randrange(len(shape) - 1)
        flat = (*shape[:n], f"(* {shape[n]} {shape[n + 1]})", *shape[n + 2 :])
        return ["reshape", program.tensor(dtype, flat, depth), *shape]

    def sliced() -> Form:
        a, b = rng.randint(0, 2), rng.randint(0, 2)
        return ["slice", inner(f"(+ {e} {a + b})"), *only([str(a), f"(+ {e} {a})"])]

    def stepped() -> Form:
        step = rng.choice((2, 3))
        whole = inner(f"(* {step} {e})")
        return ["slice", whole, *only([str(rng.randrange(step)), "_", str(step)])]

    def downward() -> Form:
        step = rng.choice((1, 2, 3))
        whole = inner(f"(* {step} {e})")
        return ["slice", whole, *only(["_", "_", str(-step)])]

    def padded() -> Form:
        before, after = rng.randint(0, 2), rng.randint(0, 2)
        value = [":value", program.literal(dtype)] if dtype not in ("bool", "c64") and rng.random() < 0.5 else []
        made = ["pad", inner(e), *only([str(before), str(after)], ["0", "0"]), *value]
        at = rng.randint(0, before + after)
        return ["slice", made, *only([str(at), f"(+ {e} {at})"])]

    def joined() -> Form:
        other = program.size()
        both = ["concat", *((inner(e), inner(other)) if rng.random() < 0.5 else (inner(other), inner(e))), *axis(k)]
        at = rng.choice(("0", other))
        return ["slice", both, *only([at, e if at == "0" else f"(+ {e} {other})"])]

    def dropped() -> Form:
        if len(shape) > 2:
            return sliced()
        at = rng.choice(("0", "1", "-1"))
        made = program.tensor(dtype, (*shape[:k], "2", *shape[k:]), depth)
        return ["slice", made, *(["_"] * k), at, *(["_"] * (len(shape) - k))]

    def stacked() -> Form:
        made = ["stack", program.tensor(dtype, shape, depth), program.tensor(dtype, shape, depth - 1), *axis(k)]
        return (
            [rng.choice(("max", "min")), made, *axis(k)]
            if kind_of(dtype) in ("float", "integer")
            else ["slice", made, *(["_"] * k), "1", *(["_"] * (len(shape) - k))]
        )

    def windows() -> Form:
        if not e.isdigit() or e == "0" or k != len(shape) - 1 or len(shape) < 2:
            return sliced()
        step, count = rng.choice((1, 2)), shape[-2]
        whole = (*shape[:-2], f"(+ (* {step} (- {count} 1)) {e})")
        return ["unfold", program.tensor(dtype, whole, depth), ":size", e, ":step", str(step)] if not count.isdigit() or count != "0" else sliced()

    def spread() -> Form:
        made = program.tensor(dtype, shape[:k] + shape[k + 1 :], depth)
        return ["expand", ["unsqueeze", made, *axis(k)], *shape]

    ways = [transposed, merged, cut, sliced, stepped, downward, padded, joined, dropped, stacked, windows, spread,
            lambda: ["flip", inner(e), *axis(k)], lambda: ["roll", inner(e), str(rng.randint(1, 3)), *axis(k)],
            lambda: ["slice", ["tile", inner(e), *only("2", "1")], *only([e, f"(* 2 {e})"])]]  # fmt: skip
    if len(shape) >= 2:
        ways.append(lambda: [rng.choice(("tril", "triu")), inner(e), ":k", str(rng.randint(-1, 1))])
    return rng.choice(ways)()
