"""A graph as a function of NumPy or PyTorch, operator by operator, as somebody would write it who knows the library: the peer that every composite has.

Views are views (`transpose`, slices, strided windows), a sum of products is a `matmul` or an `einsum`, every other operator is one call into memory that was
allocated before (`out=`).  What the library has no call for makes the graph untranslatable, which is said, not worked around.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from ...ir.errors import LuminalError
from ...ir.expr import Expr, axis
from ...ir.graph import Graph, Node, Shape, View, operand_domain
from ...ir.interpret.positions import Positions
from .dialect import Dialect, constant

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LARGEST = 1 << 28  # bytes of one tensor between operators, beyond which a peer is not tried


class Untranslatable(LuminalError):
    """The library has no call for something in the graph; the message says for what."""


@dataclass
class Translation:
    """The emitted function: its text, and what it finds by name beside the ports."""

    text: str
    constants: dict[str, Any]

    def function(self, dialect: Dialect, module: Any) -> Any:
        names: dict[str, Any] = {dialect.name: module, **self.constants}
        exec(compile(self.text, f"<{dialect.name} peer>", "exec"), names)  # text that was emitted here, of names that were checked here
        return names["peer"]


def translate(graph: Graph, sizes: Mapping[str, int], names: Mapping[str, str], dialect: Dialect, module: Any, to_library: Any) -> Translation:
    """The graph at these sizes.  `names`: port -> parameter of the function, outputs that are no inputs included; `to_library` makes a NumPy array theirs."""
    return _Translator(graph, Positions(sizes), names, dialect, module, to_library).translation()


@dataclass
class _Translator:
    graph: Graph
    at: Positions
    ports: Mapping[str, str]
    dialect: Dialect
    module: Any
    to_library: Any
    lines: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    value: dict[Node, str] = field(default_factory=dict)  # how a node is named in the function

    def translation(self) -> Translation:
        nodes = self.needed()
        outputs = dict(self.graph.outputs)
        direct: dict[Node, str] = {}
        for name, node in outputs.items():
            # the last node may write into an array that it reads only where it writes
            updates = self.graph.port(name).role == "inout"
            if (
                node.op not in ("input", "const", "iota")
                and node not in direct
                and (not updates or (node is nodes[-1] and self.in_place(node, name)))
            ):
                direct[node] = self.ports[name]
        for node in nodes:
            self.place(node, direct.get(node))
        for name, node in outputs.items():
            if direct.get(node) != self.ports[name]:
                self.lines.append(self.dialect.copy.format(to=self.ports[name], x=self.value[node]))
        result = ", ".join(self.ports[p.name] for p in self.graph.ports if p.role in ("out", "inout"))
        parameters = ", ".join(self.ports[p.name] for p in self.graph.ports)
        return Translation("\n".join([f"def peer({parameters}):", *(f"  {line}" for line in self.lines), f"  return ({result},)"]), self.constants)

    def needed(self) -> list[Node]:
        """The nodes in order, without the products that are read by sums alone."""
        kept = {n for _, n in self.graph.outputs}
        nodes = self.graph.nodes()
        for n in reversed(nodes):
            if n in kept:
                kept.update(v.node for v in (self.factors(n.args[0]) if self.is_contraction(n) else n.args))
        return [n for n in nodes if n in kept]

    # ---- nodes

    def place(self, n: Node, out: str | None) -> None:
        """Emit what computes node n, into `out` or memory of its own."""
        d, shape = self.dialect, self.at.extents(n.shape)
        match n.op:
            case "input":
                self.value[n] = self.ports[n.attr.name]
                return
            case "const":
                self.value[n] = self.keep(constant(d, self.module, n.attr.value, self.dtype(n)))
                return
            case "iota":
                assert n.attr.expr is not None
                found = self.at.index(n.attr.expr, _grid(shape))
                self.value[n] = self.keep(self.to_library(numpy.array(numpy.broadcast_to(found, shape), numpy.int64)))
                return
            case _:
                pass
        self.value[n] = to = out or self.fresh(n, shape)
        match n.op:
            case "contiguous":
                self.lines.append(d.copy.format(to=to, x=self.read(n.args[0], n.shape)))
            case "cast":
                self.lines.append(d.copy.format(to=to, x=self.read(n.args[0], n.shape)))
            case "where":
                c, a, b = (self.read(v, n.shape) for v in n.args)
                self.lines.append(d.where.format(to=to, c=c, a=a, b=b))
            case "fma":
                a, b, c = (self.read(v, n.shape) for v in n.args)
                self.lines += [f"{d.calls['mul']}({a}, {b}, out={to})", f"{d.calls['add']}({to}, {c}, out={to})"]
            case "reduce" if self.is_contraction(n):
                self.contract(n, to)
            case "reduce":
                form = self.spelled(d.reduce, n.attr.combiner, f"reduce.{n.attr.combiner}")
                x = self.read(n.args[0], operand_domain(n, 0), whole=True)
                self.lines.append(form.format(x=x, axes=tuple(range(n.rank, n.rank + len(n.attr.extents))), out=to))
            case "scan":
                form = self.spelled(d.scan, n.attr.combiner, f"scan.{n.attr.combiner}")
                self.lines.append(form.format(x=self.read(n.args[0], n.shape, whole=True), axis=n.attr.axis, out=to))
            case "gather":
                x = self.read(n.args[0], n.attr.extents, whole=True)
                self.lines.append(d.copy.format(to=to, x=f"{x}[{', '.join(self.indices(n.args[1:], n.attr.extents, n.shape))}]"))
            case "scatter":
                form = self.spelled(d.scatter, n.attr.combiner, f"scatter.{n.attr.combiner}")
                self.lines.append(d.copy.format(to=to, x=self.read(n.args[0], n.shape)))
                at = ", ".join(self.indices(n.args[2:], n.shape, n.attr.extents))
                self.lines.append(form.format(to=to, at=at, x=self.read(n.args[1], n.attr.extents)))
            case "update":
                self.lines.append(d.copy.format(to=to, x=self.read(n.args[0], n.shape)))
                part = self.slices(to, n.attr.at, shape, self.at.extents(n.attr.extents))
                if part is None:
                    raise Untranslatable("a part of a tensor that is no slice is set")
                self.lines.append(d.copy.format(to=part, x=self.read(n.args[1], n.attr.extents)))
            case _ if n.op in d.composed:
                self.lines.append(d.composed[n.op].format(*(self.read(v, n.shape) for v in n.args), to=to))
            case _:
                call = self.spelled(d.calls, n.op, n.op)
                operands = ", ".join(self.read(v, n.shape) for v in n.args)
                self.lines.append(f"{call}({operands}, out={to})")

    def spelled(self, table: Mapping[str, str], key: str, what: str) -> str:
        if key not in table:
            why = "its loops stay loops" if key == "nest" else f"{self.dialect.name} has no call for {what}"
            raise Untranslatable(why)
        return table[key]

    def dtype(self, n: Node) -> str:
        self.spelled(self.dialect.dtypes, n.dtype.name, n.dtype.name)
        return n.dtype.name

    def fresh(self, n: Node, shape: tuple[int, ...]) -> str:
        name, elements = self.dialect.dtypes[self.dtype(n)], 1
        for extent in shape:
            elements *= extent
        if elements * n.dtype.bytes > LARGEST:
            raise Untranslatable(f"a tensor between its operators has {elements * n.dtype.bytes / 1e6:.0f} MB")
        return self.keep(self.module.zeros(shape, dtype=getattr(self.module, name)), "t")

    def keep(self, value: Any, letter: str = "c") -> str:
        name = f"{letter}{len(self.constants)}_"
        self.constants[name] = value
        return name

    def in_place(self, node: Node, port: str) -> bool:
        """Whether the node reads the port's old value only where it writes the new one, and by elementwise calls."""
        reads = [v for v in node.args if v.node.op == "input" and v.node.attr.name == port]
        elementwise = node.op in self.dialect.calls
        return elementwise and all(v.is_identity and v.node.shape == node.shape for v in reads)

    # ---- views

    def read(self, view: View, domain: Shape, whole: bool = False) -> str:
        """The operand as an expression that broadcasts to the domain; `whole`: with all of its extents."""
        name, source, shape = self.value[view.node], self.at.extents(view.node.shape), self.at.extents(domain)
        if view.domain is not None:
            return self.masked(name, view, source, shape)
        found = self.selected(name, view.index, source, shape)
        if found is None:
            found = self.anywhere(name, view.index, source, shape)
        elif whole and any(self.at.linear(e) is None or self.uses(view, j) == 0 for e in view.index for j in range(len(shape))):
            return f"{self.dialect.name}.broadcast_to({found}, {shape})"
        return found

    def uses(self, view: View, j: int) -> int:
        return sum(j in (self.at.linear(e) or (0, {}))[1] for e in view.index)

    def selected(self, name: str, index: tuple[Expr, ...], source: tuple[int, ...], shape: tuple[int, ...]) -> str | None:
        """A view in which every axis of the source follows at most one axis of the domain: slices, a transposition, new axes.  None where it is something else."""
        forms = [self.at.linear(e) for e in index]
        followed: list[int] = []
        cuts: list[str] = []
        for form, extent in zip(forms, source, strict=True):
            if form is None or len(form[1]) > 1:
                return None
            start, factors = form
            if not factors:
                cuts.append(str(start))
                continue
            ((j, step),) = factors.items()
            if step < 1 or j in followed:
                return None
            followed.append(j)
            stop = start + step * (shape[j] - 1) + 1 if shape[j] else start
            cuts.append(":" if (start, step, shape[j]) == (0, 1, extent) else f"{start}:{max(stop, 0)}" + (f":{step}" if step > 1 else ""))
        if any(c != ":" for c in cuts):
            name = f"{name}[{', '.join(cuts)}]"
        order = sorted(range(len(followed)), key=lambda k: followed[k])
        if order != list(range(len(order))):
            name = self.dialect.permute.format(x=name, axes=tuple(order))
        first = min(followed, default=len(shape))
        if followed and sorted(followed) != list(range(first, len(shape))):
            name += "[" + ", ".join(":" if j in followed else "None" for j in range(first, len(shape))) + "]"
        return name

    def addresses(self, index: tuple[Expr, ...], source: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """Where each point of the domain reads, in elements from the start of a contiguous source."""
        axes, total, stride = _grid(shape), numpy.zeros((), numpy.int64), 1
        for e, extent in zip(reversed(index), reversed(source), strict=True):
            total = total + numpy.clip(self.at.index(e, axes), 0, max(extent - 1, 0)) * stride
            stride *= extent
        return total

    def anywhere(self, name: str, index: tuple[Expr, ...], source: tuple[int, ...], shape: tuple[int, ...]) -> str:
        """Any other view of a contiguous source: strided windows where the addresses are linear, else the elements one by one."""
        if 0 in shape or 0 in source:  # nothing is read
            return self.keep(self.module.zeros(shape))
        found = self.addresses(index, source, shape)
        strides = tuple(_step(found, k) for k in range(len(shape)))
        start = int(found.flat[0])
        linear = sum((g * s for g, s in zip(_grid(shape), strides, strict=True)), numpy.asarray(start))
        if min(strides, default=0) >= 0 and numpy.array_equal(numpy.broadcast_to(found, shape), numpy.broadcast_to(linear, shape)):
            return self.dialect.windows.format(x=name, start=start, shape=shape, strides=strides)
        return f"{name}.reshape(-1)[{self.keep(self.to_library(numpy.array(numpy.broadcast_to(found, shape))))}]"

    def masked(self, name: str, view: View, source: tuple[int, ...], shape: tuple[int, ...]) -> str:
        """Elements where the view's condition holds, else its fill: through memory of its own."""
        assert view.domain is not None
        inside = self.keep(self.to_library(numpy.array(numpy.broadcast_to(self.at.index(view.domain, _grid(shape)), shape), bool)))
        fill = self.keep(constant(self.dialect, self.module, view.fill, self.dtype(view.node)))
        if 0 in source:
            return fill
        dtype = view.dtype.name
        to = self.keep(self.module.zeros(shape, dtype=getattr(self.module, self.dialect.dtypes[dtype])), "t")
        found = numpy.broadcast_to(self.addresses(view.index, source, shape), shape)
        places = self.keep(self.to_library(numpy.array(found)))
        self.lines.append(self.dialect.where.format(to=to, c=inside, a=f"{name}.reshape(-1)[{places}]", b=fill))
        return to

    def slices(self, name: str, at: tuple[Expr, ...], shape: tuple[int, ...], extents: tuple[int, ...]) -> str | None:
        """The part of an array that `at` names over a domain, or None where it is no slice with the axes in order."""
        forms = [self.at.linear(e) for e in at]
        cuts: list[str] = []
        last = -1
        for form in forms:
            if form is None or len(form[1]) > 1 or any(f < 1 for f in form[1].values()):
                return None
            start, factors = form
            if not factors:
                cuts.append(f"{start}")
                continue
            ((j, step),) = factors.items()
            if j <= last:
                return None
            last = j
            cuts.append(f"{start}:{start + step * (extents[j] - 1) + 1 if extents[j] else start}:{step}")
        return f"{name}[{', '.join(cuts)}]"

    def indices(self, views: tuple[View, ...], extents: Shape, domain: Shape) -> list[str]:
        """Index arrays, one an axis; trailing axes that are taken whole and in order are left out."""
        count = len(views)
        rank = len(domain)
        while count and rank and self.whole_axis(views[count - 1], extents[count - 1], domain, rank - 1) and not any(
            axis(rank - 1) in _axes(v) for v in views[: count - 1]
        ):  # fmt: skip
            count, rank = count - 1, rank - 1
        return [self.read(v, domain[:rank]) for v in views[:count]] or ["..."]

    def whole_axis(self, view: View, extent: Expr, domain: Shape, j: int) -> bool:
        if view.node.op != "iota" or view.domain is not None or self.at.number(extent) != self.at.number(domain[j]):
            return False
        grid = _grid(self.at.extents(domain))
        expr = view.node.attr.expr
        assert expr is not None
        inner = [self.at.index(e, grid) for e in view.index]
        return numpy.array_equal(numpy.broadcast_to(self.at.index(expr, inner), grid[j].shape), grid[j]) if inner else False

    # ---- sums of products

    def is_contraction(self, n: Node) -> bool:
        return n.op == "reduce" and n.attr.combiner == "add" and n.args[0].node.op == "mul" and n.args[0].domain is None

    def factors(self, view: View) -> list[View]:
        """The operands of a product, products among them taken apart."""
        found: list[View] = []
        stack = [view]
        while stack:
            v = stack.pop()
            if v.node.op != "mul" or v.domain is not None or len(found) + len(stack) > 8:
                found.append(v)
            else:
                mapping = {axis(k): e for k, e in enumerate(v.index)}
                stack += [f.through(mapping) for f in reversed(v.node.args)]
        return found

    def contract(self, n: Node, to: str) -> None:
        domain = operand_domain(n, 0)
        shape, rank = self.at.extents(domain), n.rank
        operands = [self.over_letters(v, domain) for v in self.factors(n.args[0])]
        line = self.product(operands, rank, len(shape), to)
        if line is not None:
            self.lines.append(line)
            return
        inputs = ",".join("".join(_LETTERS[j] for j in axes) for _, axes in operands)
        present = {j for _, axes in operands for j in axes}
        result = "".join(_LETTERS[j] for j in range(rank) if j in present)
        arrays = ", ".join(x for x, _ in operands)
        times = 1
        for j in range(rank, len(shape)):  # a summed axis that no factor has
            times *= 1 if j in present else shape[j]
        whole = f"{self.dialect.name}.einsum('{inputs}->{result}', {arrays}{', optimize=True' if self.dialect.name == 'numpy' else ''})"
        spread = "" if len(result) == rank else "[" + ", ".join(":" if j in present else "None" for j in range(rank)) + "]"
        self.lines.append(self.dialect.copy.format(to=to, x=whole + spread + (f" * {times}" if times != 1 else "")))

    def over_letters(self, view: View, domain: Shape) -> tuple[str, tuple[int, ...]]:
        """An operand with exactly the axes of the domain that it depends on, in the order of its own memory where it is a mere selection."""
        name, source, shape = self.value[view.node], self.at.extents(view.node.shape), self.at.extents(domain)
        forms = [self.at.linear(e) for e in view.index]
        if view.domain is None and all(f is not None and f[0] == 0 and list(f[1].values()) == [1] for f in forms):
            followed = tuple(next(iter(f[1])) for f in forms if f is not None)
            if len(set(followed)) == len(followed) and all(shape[j] == extent for j, extent in zip(followed, source, strict=True)):
                return name, followed
        used = tuple(j for j in range(len(shape)) if any(axis(j) in _axes_of(e) for e in view.exprs))
        renamed = {axis(j): axis(k) for k, j in enumerate(used)}
        narrowed = view.through(renamed)
        kept = tuple(domain[j] for j in used)
        extents = tuple(shape[j] for j in used)
        if narrowed.domain is not None:
            return self.masked(name, narrowed, source, extents), used
        return self.selected(name, narrowed.index, source, extents) or self.anywhere(name, narrowed.index, source, self.at.extents(kept)), used

    def product(self, operands: list[tuple[str, tuple[int, ...]]], rank: int, total: int, to: str) -> str | None:
        """One `matmul` where two operands have one axis each of their own and share one that is summed, after any number of common ones."""
        if len(operands) != 2 or rank == total:
            return None
        (a, of_a), (b, of_b) = operands
        both = [j for j in of_a if j in of_b]
        batch, summed = sorted(j for j in both if j < rank), [j for j in both if j >= rank]
        rows, columns = [j for j in of_a if j not in of_b], [j for j in of_b if j not in of_a]
        if len(summed) != 1 or not rows + columns or any(j >= rank for j in rows + columns) or max(len(rows), len(columns)) > 1:
            return None
        if len(rows) < 1 or len(columns) < 1:
            return self.vector_product(operands, rows or columns, summed, batch, to) if not batch else None
        if rows[0] > columns[0]:
            a, of_a, b, of_b, rows, columns = b, of_b, a, of_a, columns, rows
        if (*batch, *rows, *columns) != tuple(range(rank)):
            return None
        left, right = self.ordered(a, of_a, (*batch, *rows, *summed)), self.ordered(b, of_b, (*batch, *summed, *columns))
        return f"{self.dialect.name}.matmul({left}, {right}, out={to})"

    def vector_product(
        self, operands: list[tuple[str, tuple[int, ...]]], kept: list[int], summed: list[int], batch: list[int], to: str
    ) -> str | None:
        if len(kept) != 1 or batch or kept[0] != 0:
            return None
        (matrix, of), (vector, _) = sorted(operands, key=lambda o: -len(o[1]))
        return f"{self.dialect.name}.matmul({self.ordered(matrix, of, (*kept, *summed))}, {vector}, out={to})"

    def ordered(self, name: str, have: tuple[int, ...], wanted: tuple[int, ...]) -> str:
        return name if have == wanted else self.dialect.permute.format(x=name, axes=tuple(have.index(j) for j in wanted))


def _grid(shape: tuple[int, ...]) -> list[Any]:
    return [numpy.arange(n, dtype=numpy.int64).reshape([-1 if j == k else 1 for j in range(len(shape))]) for k, n in enumerate(shape)]


def _step(addresses: Any, k: int) -> int:
    """How far apart neighbours along axis k read."""
    if addresses.ndim <= k or addresses.shape[k] < 2:
        return 0
    first = [0] * addresses.ndim
    second = list(first)
    second[k] = 1
    return int(addresses[tuple(second)] - addresses[tuple(first)])


def _axes_of(e: Expr) -> set[Expr]:
    from ...ir.walks import postorder

    return {n for n in postorder(e) if n.op == "axis"}


def _axes(view: View) -> set[Expr]:
    return {a for e in view.exprs for a in _axes_of(e)}
