"""Reshape: the same elements in row-major order under other extents.

Both shapes are cut into the smallest groups of axes with equal products, and positions are mapped within a group.  An axis that is kept is
mapped to itself; a division or a modulus is left only where the extents of a group do not factor, for instance in [M, K] → [M·K].
"""

from __future__ import annotations

from collections.abc import Sequence

from .expr import ONE, TRUE, ZERO, Expr, axis, both, product
from .graph import Shape
from .movement import Movement
from .polynomial import divided, expr as from_poly, poly
from .tensor import BuildError, Int, Tensor, show_shape
from .walks import postorder


class Reshape(Movement):
    """See `Builder`."""

    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """One extent may be -1; E0315.  `[N] → [N / 4, 4]` (and a -1 that needs it) adds the precondition N % 4 == 0."""
        self.check_rank(len(shape))
        wanted = self.wanted_shape(x.shape, [self.tidy(e) for e in shape])
        self.check_elements(x.shape, wanted)
        return self.moved(x, self.positions(x.shape, wanted), wanted)

    def wanted_shape(self, old: Shape, new: list[Expr]) -> Shape:
        """The new shape with its -1 replaced by what is left of the elements when the other extents are taken out."""
        holes = [k for k, e in enumerate(new) if e.is_const and e.attr == -1]
        if not holes:
            return tuple(new)
        if len(holes) > 1:
            raise BuildError("E0315", f"reshape to {show_shape(new)}: only one extent may be -1")
        left, taken = list(old), []
        for e in (e for k, e in enumerate(new) if k != holes[0]):
            twin = next((o for o in left if self.same(o, e)), None)
            left.remove(twin) if twin is not None else taken.append(e)
        whole, part = self.elements(left), self.elements(taken)
        if part is ZERO:
            raise BuildError("E0315", f"reshape of {show_shape(old)} to {show_shape(new)}: an extent is 0, so -1 stands for no one number")
        if part is not ONE:
            self.require(ZERO.lt(part), "E0315", f"reshape to {show_shape(new)}: an extent may be negative")
            self.require((whole % part).eq(0), "E0315", f"reshape of {show_shape(old)} to {show_shape(new)}: the elements do not divide")
        new[holes[0]] = self.tidy(whole // part)
        return tuple(new)

    def check_elements(self, old: Shape, new: Shape) -> None:
        """Both have as many elements: proven, or a precondition of the divisions that the new extents are made with."""
        for e in new:
            self.require(ZERO.le(e), "E0315", f"reshape to {show_shape(new)}: an extent is negative")
        a, b = self.elements(old), self.elements(new)
        if self.same(a, b):
            return
        conditions: list[Expr] = []
        for n in [n for e in new for n in postorder(e) if n.op == "floordiv"]:
            # where x is a multiple of d, d · (x // d) is x
            whole, part = n.args
            if self.proves(ZERO.lt(part)):
                conditions.append((whole % part).eq(0))
        if self.tidy(a.eq(b), (), both(*conditions)) is not TRUE:
            raise BuildError(
                "E0315", f"reshape of {show_shape(old)} to {show_shape(new)}: {a} and {b} elements are not provably equal", "one extent may be -1"
            )
        for c in conditions:
            self.require(c, "E0315", f"reshape of {show_shape(old)} to {show_shape(new)}: the extents do not divide")

    def positions(self, old: Shape, new: Shape) -> list[Expr]:
        """For each old axis its position as an expression of the new positions."""
        index: list[Expr] = []
        for olds, news in self.groups(old, new):
            index += self.refined([old[k] for k in olds], [new[k] for k in news], [axis(k) for k in news])
        return index

    def refined(self, old: list[Expr], new: list[Expr], at: list[Expr]) -> list[Expr]:
        """The positions along axes of a group, from those `at` of the new ones: from the last on, an axis whose extent is a factor of the other's is taken out of it; what is left is mapped as one
        position."""
        found: list[Expr] = []
        within, inner = ZERO, ONE  # of the last old axis, what is known of its position: within + inner · (the rest)
        taken = ONE  # of the last new axis: its position is divided by that
        while old and new and len(old) + len(new) > 2:
            o, n, e = old[-1], new[-1], at[-1] if taken is ONE else at[-1] // taken
            if (rest := self.quotient(n, o)) is not None and len(old) > 1:
                found.append(within + inner * (e % o))
                old, within, inner = old[:-1], ZERO, ONE
                new, taken = [*new[:-1], rest], self.tidy(taken * o)
            elif (rest := self.quotient(o, n)) is not None and len(new) > 1:
                within, inner = within + inner * e, self.tidy(inner * n)
                old, new, at, taken = [*old[:-1], rest], new[:-1], at[:-1], ONE
            else:
                break
        places = at if taken is ONE else [*at[:-1], at[-1] // taken]
        flat = ZERO
        for extent, place in zip(new, places, strict=True):
            flat = flat * extent + place
        behind = ONE
        for k in reversed(range(len(old))):
            position = flat if behind is ONE else flat // behind
            position = position if k == 0 else position % old[k]
            found.append(within + inner * position if k == len(old) - 1 else position)
            behind = self.tidy(behind * old[k])
        return found[::-1]

    def quotient(self, a: Expr, b: Expr) -> Expr | None:
        """a / b where that is a polynomial, other than 1; None where it is not."""
        q, left = divided(poly(a), poly(b)) if b is not ZERO else ({}, {(): 1})
        return None if left or self.same(a, b) else from_poly(q)

    def groups(self, old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
        """The axes of both shapes in groups, each as small as can be proven, with as many elements on either side; what nothing
        smaller is proven for is one group."""
        result: list[tuple[list[int], list[int]]] = []
        i = j = 0
        while i < len(old) or j < len(new):
            end = next(
                (
                    (p, q)
                    for total in range(1, len(old) - i + len(new) - j)
                    for p in range(i, min(len(old), i + total) + 1)
                    if (q := j + total - (p - i)) <= len(new) and self.same(product(old[i:p]), product(new[j:q]))
                ),
                (len(old), len(new)),
            )
            result.append((list(range(i, end[0])), list(range(j, end[1]))))
            i, j = end
        return result
