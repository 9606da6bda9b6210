"""Contractions: einsum, and matmul as an einsum.  A contraction is one multiplication over the joint domain and one reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from .expr import ONE, ZERO, Expr, axis
from .graph import Node, elementwise, reduce_node
from .reductions import Reductions
from .tensor import BuildError, Tensor, show_shape

_GUESS = 1 << 10  # stands for a symbolic extent when contraction orders are compared


MAX_LETTERS = 1000
MAX_OPERANDS = 64  # the order of contraction is searched for


class Contractions(Reductions):
    """See `Builder`."""

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """NumPy's: the last axis of a with the last but one of b, axes before them broadcast; a vector is a row on the left, a column on the right;
        E0311, E0313."""
        a, b = self.unify(a, b, what="the operands of matmul")
        a, b = self.strong(a), self.strong(b)
        if not a.rank or not b.rank:
            raise BuildError("E0313", "matmul of a scalar", "use * for scalars")
        inner_b = b.shape[-2] if b.rank > 1 else b.shape[-1]
        self.check_same(a.shape[-1], inner_b, f"the inner extents of matmul of {show_shape(a.shape)} and {show_shape(b.shape)}")
        batch = self.broadcast_shape(a.shape[:-2], b.shape[:-2])
        letters = [f"batch{k}" for k in range(len(batch))]
        extents = dict(zip(letters, batch, strict=True))
        left, right = ["k"], ["k"]
        if a.rank > 1:
            a = self.expand(a, (*batch, *a.shape[-2:]))
            left, extents["i"] = [*letters, "i", "k"], a.shape[-2]
        if b.rank > 1:
            b = self.expand(b, (*batch, *b.shape[-2:]))
            right, extents["j"] = [*letters, "k", "j"], b.shape[-1]
        extents["k"] = a.shape[-1]
        kept = [*letters, *(name for name in ("i", "j") if name in extents)]
        return self.contract([(a, left), (b, right)], kept, extents)

    def einsum(self, spec: str, *xs: Tensor) -> Tensor:
        """np.einsum, any number of operands, repeated and dropped indices, `...`, and the implicit output of a spec without `->`; E0311, E0313, E0316.
        More than two operands are contracted pairwise, in an order with few multiplications."""
        from .contraction_order import contraction_order, kept_names

        if len(xs) > MAX_OPERANDS or len(spec) > MAX_LETTERS:
            raise BuildError(
                "E0316", f"einsum of {len(xs)} operands and {len(spec)} characters; at most {MAX_OPERANDS} and {MAX_LETTERS} are allowed"
            )
        inputs, output = self.read_spec(spec, xs)
        parts = [self.strong(x) for x in self.unify(*xs, what="the operands of einsum")]
        extents: dict[str, Expr] = {}
        for x, names in zip(parts, inputs, strict=True):
            for name, extent in zip(names, x.shape, strict=True):
                known = extents.get(name, ONE)
                if known is ONE:
                    extents[name] = extent
                elif extent is not ONE:
                    self.check_same(known, extent, f"index {name} of einsum {spec!r}")
        distinct = [list(dict.fromkeys(names)) for names in inputs]
        pending = [
            self.alone_summed(self.diagonal(x, names, extents), [*distinct[:n], *distinct[n + 1 :]], unique, output, extents)
            for n, (x, names, unique) in enumerate(zip(parts, inputs, distinct, strict=True))
        ]
        for i, j in contraction_order([names for _, names in pending], output, lambda names: self.volume(names, extents))[:-1]:
            rest = [p for k, p in enumerate(pending) if k not in (i, j)]
            kept = kept_names(pending[i][1], pending[j][1], [names for _, names in rest], output)
            pending = [*rest, (self.contract([pending[i], pending[j]], kept, extents), kept)]
        return self.contract(pending, output, extents)

    def alone_summed(
        self, x: Tensor, others: Sequence[list[str]], names: list[str], output: Sequence[str], extents: Mapping[str, Expr]
    ) -> tuple[Tensor, list[str]]:
        """An operand and its names, those that nothing else has summed away: Σ a·b over what only a has is (Σ a)·b, one multiplication for all of them.
        Left alone where the others have no axis of their own, for then each element is multiplied once in either form, and one sum is one pass."""
        kept = [n for n in names if n in output or any(n in other for other in others)]
        if len(kept) == len(names) or all(set(other) <= set(names) for other in others):
            return x, names
        return self.contract([(x, names)], kept, extents), kept

    def read_spec(self, spec: str, xs: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
        """The index names of each operand and of the result; the axes that `...` stands for get names of their own."""
        text = spec.replace(" ", "")
        left, arrow, right = text.partition("->")
        terms = left.split(",")
        if len(terms) != len(xs):
            raise BuildError("E0316", f"einsum {spec!r} has {len(terms)} operands, {len(xs)} are given")
        inputs: list[list[str]] = []
        for term, x in zip(terms, xs, strict=True):
            names = self.term_names(term, spec, x.rank)
            if len(names) != x.rank:
                raise BuildError("E0313", f"einsum {spec!r}: {term!r} names {len(names)} axes of an operand of rank {x.rank}")
            inputs.append(names)
        everything = [name for names in inputs for name in names]
        dots = sorted({name for name in everything if len(name) > 1}, key=lambda n: -int(n[3:]))
        if not arrow:
            letters = sorted({name for name in everything if len(name) == 1 and everything.count(name) == 1})
            return inputs, [*dots, *letters]
        output = self.term_names(right, spec, len(right.replace("...", "")) + len(dots))
        for name in output:
            if name not in everything:
                raise BuildError("E0316", f"einsum {spec!r}: the result's index {name} is in no operand")
        if len(set(output)) != len(output):
            raise BuildError("E0316", f"einsum {spec!r}: the result names an index twice")
        return inputs, output

    def term_names(self, term: str, spec: str, rank: int) -> list[str]:
        """`a...b` on rank 4 is a, dot2, dot1, b: dots are numbered from the last one, as broadcasting aligns them."""
        before, dots, after = term.partition("...")
        if not all(c.isalpha() and c.isascii() for c in before + after):
            raise BuildError("E0316", f"einsum {spec!r}: {term!r} is not a list of letters")
        hidden = max(rank - len(before) - len(after), 0) if dots else 0
        return [*before, *(f"dot{k}" for k in range(hidden, 0, -1)), *after]

    def diagonal(self, x: Tensor, names: Sequence[str], extents: Mapping[str, Expr]) -> Tensor:
        """x with one axis for each distinct name: a repeated name reads the diagonal, an axis of extent 1 beside a longer one is repeated."""
        unique = list(dict.fromkeys(names))
        index = [ZERO if e is ONE and extents[n] is not ONE else axis(unique.index(n)) for n, e in zip(names, x.shape, strict=True)]
        return self.moved(x, index, [extents[n] for n in unique])

    @staticmethod
    def volume(names: Sequence[str], extents: Mapping[str, Expr]) -> int:
        """Of the box over these names; symbolic extents are guessed."""
        return prod(e.attr if e.is_const else _GUESS for e in (extents[n] for n in names))

    def contract(self, parts: Sequence[tuple[Tensor, list[str]]], kept: Sequence[str], extents: Mapping[str, Expr]) -> Tensor:
        """Σ over the names that are not kept of the product of one or two operands; bool contracts with or and and."""
        dropped = [n for n in dict.fromkeys(n for _, names in parts for n in names) if n not in kept]
        domain = [*kept, *dropped]
        shape = tuple(extents[n] for n in domain)
        views = [x.view.through({axis(k): axis(domain.index(n)) for k, n in enumerate(names)}) for x, names in parts]
        logical = parts[0][0].dtype.kind == "bool"
        x = Tensor(views[0], shape)
        if len(views) == 2:
            if not logical:
                self.check_accepts("mul", x.dtype)
            node: Node = elementwise("bit_and" if logical else "mul", shape, *views, span=self.span)
            x = self.of(node)
        if not dropped:
            return x
        return self.of(reduce_node("or" if logical else "add", shape[: len(kept)], shape[len(kept) :], x.view, self.span))
