"""The ground floor of `Builder`: what is known of the sizes, proofs on them, and a user's axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .bounds import Known
from .errors import NOWHERE, Span
from .expr import FALSE, TRUE, ZERO, Expr, as_expr, both, call
from .graph import Shape, Size
from .polynomial import expr, poly
from .simplify import assuming, prove_equal, simplify
from .tensor import BuildError, Int, show
from .walks import postorder, substitute

FARTHEST = 1 << 48  # elements that a position may be away
MAX_RANK = 64


class Scope:
    """See `Builder`, which this is the base of."""

    def __init__(self, sizes: dict[str, Size], facts: Iterable[Expr] = ()) -> None:
        self.sizes = sizes
        self.facts = tuple(facts)
        self.requires: list[Expr] = []
        self.span: Span = NOWHERE
        self._scopes: dict[Shape, Known] = {}
        self._equal: dict[Expr, Expr] = {}  # sizes that a precondition says are expressions of others
        for fact in self.facts:
            self._learn(fact)

    # ---- proofs on sizes

    def known(self, shape: Shape = ()) -> Known:
        """What is known of the sizes, and of the positions in a (not empty) domain of this shape."""
        scope = self._scopes.get(shape)
        if scope is None:
            if shape:
                scope = self.known().with_domain(shape)
            else:
                scope = assuming(Known(self.sizes), both(*self.facts, *self.requires))
            self._scopes[shape] = scope
        return scope

    def tidy(self, e: Int, shape: Shape = (), condition: Expr | None = None) -> Expr:
        """The expression simplified; `shape` gives the extents that its $ axes run through, `condition` what holds wherever it is used."""
        return simplify(substitute(as_expr(e), self._equal), assuming(self.known(shape), condition))

    def proves(self, condition: Expr, shape: Shape = ()) -> bool:
        return self.tidy(condition, shape) is TRUE

    def same(self, a: Int, b: Int) -> bool:
        """The two integer expressions over sizes are provably equal."""
        return _equal(substitute(as_expr(a), self._equal), substitute(as_expr(b), self._equal), self.known())

    def require(self, condition: Expr, code: str, message: str, *notes: str) -> None:
        """Nothing where the condition over sizes is proven, BuildError where it is refuted, else one more precondition in `requires`."""
        condition = self.tidy(condition)
        if condition is FALSE:
            raise BuildError(code, message, *notes)
        if condition is not TRUE:
            self.requires.append(condition)
            self._scopes.clear()
            self._learn(condition)

    def _learn(self, condition: Expr) -> None:
        """Of a precondition C == 3 * G, that C is 3 * G from here on: polynomials are then compared by what they are made of."""
        for name, value in (condition.args, condition.args[::-1]) if condition.op == "equal" else ():
            value = substitute(value, self._equal)
            if name.op == "size" and name.attr not in value.names:
                self._equal = {**{k: substitute(v, {name: value}) for k, v in self._equal.items()}, name: value}
                return

    def check_same(self, a: Int, b: Int, what: str) -> None:
        """E0311 unless the two sizes are provably equal."""
        if not self.same(a, b):
            raise BuildError("E0311", f"{what}: {show(a)} and {show(b)} are not provably equal", *self.where_equal(a, b))

    def where_equal(self, a: Int, b: Int) -> tuple[str, ...]:
        """A note on what would make two sizes equal: that what is divided in them is a multiple of the divisor, or that one operand of a min or max is the
        larger.  Nothing where that would not."""
        a, b = (substitute(as_expr(e), self._equal) for e in (a, b))
        conditions: dict[Expr, str] = {}
        for n in postorder(a, b):
            if n.op == "floordiv" and n.args[1].is_const:
                conditions[call("mod", *n.args).eq(0)] = f"{show(call('mod', *n.args))} = 0"
            elif n.op in ("min", "max"):
                for low, high in (n.args, n.args[::-1]):
                    above = poly(high - low)
                    less, more = ({k: sign * c for k, c in above.items() if sign * c > 0} for sign in (-1, 1))
                    conditions[low.le(high)] = f"{show(expr(less))} <= {show(expr(more))}"
        for wanted in (*((c,) for c in conditions), tuple(conditions)):
            if wanted and _equal(a, b, assuming(self.known(), both(*wanted))):
                text = ", ".join(conditions[c] for c in wanted)
                return (f"they are equal where {text}: a port says so by `(where {text})` behind its sizes",)
        return ()

    def extent(self, e: Int) -> Expr:
        """A new axis's extent, simplified; E0306 where its numbers alone are beyond any memory (and 64 bits would overflow)."""
        return self.within_reach(self.tidy(e), "the extent")

    def within_reach(self, e: Expr, what: str) -> Expr:
        if any(abs(c) > FARTHEST for c in poly(e).values()):
            raise BuildError("E0306", f"{what} {show(e)} is beyond 2^48")
        return e

    def check_rank(self, rank: int) -> None:
        if rank > MAX_RANK:
            raise BuildError("E0313", f"{rank} axes; at most {MAX_RANK} are allowed")

    def axis_number(self, axis: int, rank: int) -> int:
        """A user's axis as 0 <= axis < rank; E0312."""
        if not -rank <= axis < rank:
            raise BuildError("E0312", f"there is no axis {axis}", f"the operand has rank {rank}")
        return axis % rank

    def axis_numbers(self, axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
        """A user's axes (None: all) in rising order, each once; E0312."""
        if axes is None:
            return tuple(range(rank))
        numbers = [self.axis_number(a, rank) for a in ((axes,) if isinstance(axes, int) else axes)]
        if len(set(numbers)) != len(numbers):
            raise BuildError("E0312", f"an axis is given twice in {list(axes) if not isinstance(axes, int) else axes}")
        return tuple(sorted(numbers))


def _equal(a: Expr, b: Expr, known: Known) -> bool:
    """Also of a half and the other half, N // 2 and N - N // 2: together they are N."""
    return prove_equal(a, b, known) or simplify(a - b, known) is ZERO
