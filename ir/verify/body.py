"""A block of kernel statements, laid out so that rules are short: every statement with what encloses it and the names that it mentions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from ..dtypes import INDEX, DType
from ..expr import Expr, var
from ..kernel import Alloc, Block, Buffer, Let, Loop, Stmt, Store
from ..record import individual
from ..walks import postorder, substitute

# Kinds whose iterations may run at the same time.
CONCURRENT = frozenset({"parallel", "workshare", "queue", "vector", "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z"})
NAMING = frozenset({"size", "var", "load", "first", "last", "axis", "to_line"})


@individual
class Place:
    """A statement, what encloses it (outermost first), its own expressions, and the leaves and loads in them."""

    stmt: Stmt
    around: tuple[Stmt, ...]
    roots: tuple[Expr, ...]
    buffers: Mapping[str, Buffer]  # visible here
    variables: Mapping[str, DType]

    @cached_property
    def names(self) -> tuple[Expr, ...]:
        """Nodes that name something: size, var, load, first, last, axis."""
        return tuple([n for n in postorder(*self.roots) if n.op in NAMING])

    @cached_property
    def loaded(self) -> frozenset[str]:
        """The buffers that it loads from."""
        return frozenset().union(*[e.buffers for e in self.roots])

    def reads(self, buffer: str) -> bool:
        return buffer in self.loaded

    def loops(self) -> Iterator[Loop]:
        return (s for s in self.around if isinstance(s, Loop))


class Body:
    def __init__(
        self,
        title: str,
        block: Block,
        buffers: Mapping[str, Buffer],
        variables: Mapping[str, DType],
        sizes: frozenset[str],
        readonly: frozenset[str],
        unique: bool,
    ) -> None:
        self.title, self.buffers, self.variables, self.sizes = title, buffers, variables, sizes
        self.readonly = readonly  # buffers that may not be stored to
        self.unique = unique  # no name stands twice, not even in blocks apart
        self.places: list[Place] = []
        self.lets: dict[Expr, Expr] = {}
        self._walk(block, (), dict(buffers), dict(variables))

    def _walk(self, block: Block, around: tuple[Stmt, ...], buffers: dict[str, Buffer], variables: dict[str, DType]) -> None:
        for s in block:
            roots = (*s.buffer.shape, *s.buffer.strides) if isinstance(s, Alloc) else s.expressions()
            self.places.append(Place(s, around, roots, buffers, variables))
            if isinstance(s, Let):
                self.lets[var(s.name, s.value.dtype)] = substitute(s.value, self.lets)
                variables = {**variables, s.name: s.value.dtype}
            elif isinstance(s, Alloc):
                buffers = {**buffers, s.buffer.name: s.buffer}
            for inside in s.blocks():
                self._walk(inside, (*around, s), buffers, {**variables, s.axis: INDEX} if isinstance(s, Loop) else variables)

    @cached_property
    def common(self) -> frozenset[str]:
        """The buffers that all threads see."""
        shared = (p.stmt.buffer.name for p in self.places if isinstance(p.stmt, Alloc) and p.stmt.buffer.space == "shared")
        return frozenset((*(b.name for b in self.buffers.values()), *shared))

    def expanded(self, e: Expr) -> Expr:
        """The expression with every `let` written out."""
        return substitute(e, self.lets)

    def stores(self) -> Iterator[tuple[Place, Store]]:
        return ((p, p.stmt) for p in self.places if isinstance(p.stmt, Store))
