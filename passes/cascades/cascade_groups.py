"""Which reductions over one axis are computed together, in one pass over it.

    corrected   a reduction that depends on earlier ones separably joins the first of them
    sharing     reductions of the same *scores*, a value that is itself a reduction: each tile of scores is made once, used by all of them and forgotten

        s[i, j] = Σ_d Q[i, d] · K[j, d]           scores, read by both sums over j
        o[i, e] = Σ_j σ(s[i, j]) · V[j, e]        a state with a further axis e
        l[i]    = Σ_j σ(s[i, j])                  a state

Scores that one reduction alone reads are worth a cascade too: they need no memory then.  Not, though, where they are the left side of a second product with a matrix that all rows
share (a chain of matrix products, as in a feed-forward layer): that is two contractions, each with blocks of its own, and the cascade would stream both matrices for every block of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from ...ir.bounds import Known
from ...ir.expr import ONE, Expr, axis
from ...ir.graph import Graph, Node, Shape, View, postorder, users
from ...ir.primops import OPS
from ...ir.record import changing
from ...ir.target import Target
from ...ir.walks import leaves
from ..costs import nominal, points
from ..reading import reads_of
from .block_sums import block_sums
from .made_again import made_again
from .scores import Key, complex_scores, pointwise_reads, private, scores_of, spread
from .separate import Exponent

WIDEST = 512  # positions of further axes on nominal sizes: what a row has summed so far is read and written once a tile, which costs less than its scores would up to here


class Corrected(Protocol):
    """A reduction that depends on earlier ones over its axis, separably."""

    @property
    def earlier(self) -> tuple[Node, ...]: ...

    @property
    def exponents(self) -> tuple[Exponent, ...]: ...

    @property
    def helpers(self) -> tuple[Node, ...]: ...

    @property
    def places(self) -> tuple[int, ...]: ...


@changing
class Group:
    """The states of one cascade."""

    rows: Shape
    states: list[Node] = field(default_factory=list)  # in topological order
    places: dict[Node, tuple[int, ...]] = field(default_factory=dict)  # state → which of its axes each row axis is

    def add(self, n: Node, rows: tuple[int, ...]) -> None:
        self.states.append(n)
        self.places[n] = rows


def groups(graph: Graph, corrected: Mapping[Node, Corrected], target: Target, reasons: list[str]) -> dict[Node, Group]:
    """State → the cascade that it belongs to.  `reasons` gets what is in the way of others."""
    nodes = graph.nodes()
    group = _of_corrected(nodes, corrected, target, reasons)
    _Sharing(graph, nodes, group, target, reasons).add()
    _meeting(graph, nodes, group)
    if target.gpu:
        group = _of_a_gpu(nodes, corrected, target, group, reasons)
    _in_order(group, reasons)
    return group


def _of_a_gpu(
    nodes: list[Node], corrected: Mapping[Node, Corrected], target: Target, group: dict[Node, Group], reasons: list[str]
) -> dict[Node, Group]:
    """The cascades of which a block of threads can work off tiles of scores, for many rows at once; of the others only what is a number a row."""
    taken: dict[Group, bool] = {}
    for g in dict.fromkeys(group.values()):
        reads = ((v.node, axis(n.rank) in v.index) for n in g.states for v in pointwise_reads(n))
        scores = {r for r, moves in reads if moves and r not in group and r.op == "reduce" and spread(r)}
        further = [[e for a, e in enumerate(n.shape) if a not in g.places[n]] for n in g.states]
        taken[g] = bool(scores) and all(map(_one_product, scores)) and all(len(e) <= 1 for e in further) and any(_shares(s, g) for s in scores)
        if not taken[g] and any(not e.is_const for es in further for e in es):
            reasons.append(
                "no cascade: a thread of a GPU has no memory of its own for as many sums as the sizes say, and no rows share their scores' columns"
            )
    numbers = _of_corrected(nodes, {n: s for n, s in corrected.items() if all(e.is_const for e in _further(n, s))}, target, [])
    result = {n: g for n, g in group.items() if taken[g]}
    for g in dict.fromkeys(numbers.values()):
        if result.keys().isdisjoint(g.states):
            result |= dict.fromkeys(g.states, g)
    return result


def _further(n: Node, s: Corrected) -> list[Expr]:
    """The extents of a state's axes that are no rows of the first that it depends on."""
    return [e for a, e in enumerate(n.shape) if a not in s.places]


def _one_product(score: Node) -> bool:
    """Whether scores are made of what is in memory, not of other scores."""
    return not any(v.node.op == "reduce" and spread(v.node) for v in pointwise_reads(score))


def _shares(score: Node, g: Group) -> bool:
    """Whether several rows read the same columns."""
    extents = {e for n in g.states for e in n.attr.extents}
    along = [k for k, e in enumerate(score.shape) if e in extents]
    rows = {axis(k) for k, e in enumerate(score.shape) if k not in along and e is not ONE}
    columns = [v for v in pointwise_reads(score) if any(axis(k) in leaves(e, "axis") for k in along for e in v.index)]
    return bool(columns) and not rows <= {a for v in columns for e in v.index for a in leaves(e, "axis")}


def _in_order(group: dict[Node, Group], reasons: list[str]) -> None:
    """Leave no two cascades that need results of each other: one of them stays reductions."""
    needed = {g: _needs(g, group) for g in dict.fromkeys(group.values())}
    for g in needed:
        seen, stack = set(), [*needed[g]]
        while stack:
            other = stack.pop()
            if other not in seen:
                seen.add(other)
                stack += needed[other]
        if g in seen:
            reasons.append("no cascade: two passes over different axes would need results of each other")
            needed[g] = set()
            for n in g.states:
                del group[n]


def _needs(g: Group, group: Mapping[Node, Group]) -> set[Group]:
    """The other cascades whose results the states of `g` are made of, those aside that are needed for these."""
    found: set[Group] = set()
    seen, stack = set(g.states), [a.node for n in g.states for a in n.args]
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        other = group.get(n, g)
        if other is g:
            stack += [a.node for a in n.args]
        else:
            found.add(other)
    return found


def _of_corrected(nodes: list[Node], corrected: Mapping[Node, Corrected], target: Target, reasons: list[str]) -> dict[Node, Group]:
    group: dict[Node, Group] = {}
    for n in nodes:
        s = corrected.get(n)
        if s is None:
            continue
        if complex_scores(n):
            reasons.append("no cascade: complex scores are two sums at once, of which no tile is held in registers")
            continue
        first = s.earlier[0]
        if first not in group:
            g = Group(first.shape)
            g.add(first, tuple(range(first.rank)))
            group[first] = g
        g = group[first]
        rows = tuple(s.places[j] for j in g.places[first])
        for r in s.earlier[1:]:
            _merge(r, s.places, g, rows, group)
        same = all(r.rank == len(g.rows) and group.get(r) is g and tuple(s.places[j] for j in g.places[r]) == rows for r in s.earlier)
        if not same or _needs_finished(n, g):
            reasons.append("no cascade: a reduction needs what an earlier one gives in the end")
            continue
        for helper in s.helpers:
            if helper not in g.states:
                g.add(helper, tuple(sorted(rows).index(a) for a in rows))
            group.setdefault(helper, g)
        g.add(n, rows)
        group[n] = g
    if not target.gpu:  # there, neighbouring threads read neighbouring columns
        reasons += [
            "no cascade: the axis lies across memory, where sums are worked out for many rows side by side, in a pass each"
            for g in dict.fromkeys(group.values())
            if across(g)
        ]
    return {n: g for n, g in group.items() if len(g.states) > 1 and (target.gpu or not across(g))}


def across(g: Group) -> bool:
    """Whether statistics of rows are of numbers in memory that are consecutive along the rows, not along the axis."""
    rows_last = False
    for n in g.states:
        if n.rank != len(g.rows) or n.op != "reduce":
            return False
        for view in pointwise_reads(n):
            axes = {e.attr for i in view.index for e in leaves(i, "axis")}
            if not any(k < n.rank for k in axes) or view.node in g.states or view.node.op in ("const", "iota"):
                continue  # one number for all rows, or one for a row
            if view.node.op == "reduce" and max(axes) >= n.rank:
                return False  # scores, which are in no order
            last = leaves(view.index[-1], "axis")
            if any(e.attr >= n.rank for e in last):
                return False
            rows_last = rows_last or (view.node.op != "reduce" and bool(last))
    return rows_last


def _merge(r: Node, places: tuple[int, ...], g: Group, rows: tuple[int, ...], group: dict[Node, Group]) -> None:
    """Bring the cascade of another earlier reduction (which may have none yet) into `g`, where neither needs the other.  `places`: where the reader of both has the axes of `r`."""
    other = group.get(r)
    if other is None and r.rank == len(rows):
        other = Group(r.shape)
        other.add(r, tuple(range(r.rank)))
    if other is None or other is g or len(other.rows) != len(rows) or not apart(other.states, g.states):
        return
    at = [places[a] for a in other.places[r]]  # in the reader: each of the other's rows
    if not set(rows) <= set(at):
        return  # one of the rows is an axis of extent 1 that the scores lack
    order = [at.index(a) for a in rows]
    for n in other.states:
        g.add(n, tuple(other.places[n][b] for b in order))
        group[n] = g


def apart(some: list[Node], others: list[Node]) -> bool:
    """Neither needs the other."""
    return set(some).isdisjoint(postorder(*others)) and set(others).isdisjoint(postorder(*some))


def _needs_finished(n: Node, g: Group) -> bool:
    """Whether the body reads a state of the group through something that is no pointwise operator: then that state must be finished first."""
    inside = set(g.states)
    stack, seen, leaves_ = [n.args[0].node], set(), []
    while stack:
        m = stack.pop()
        if m in seen or m in inside:
            continue
        seen.add(m)
        if m.op in OPS:
            stack.extend(a.node for a in m.args)
        else:
            leaves_.append(m)
    return any(m in inside for m in postorder(*leaves_))


# ---- reductions of the same scores


class _Sharing:
    def __init__(self, graph: Graph, nodes: list[Node], group: dict[Node, Group], target: Target, reasons: list[str]) -> None:
        self.graph, self.nodes, self.group, self.reasons = graph, nodes, group, reasons
        self.known = Known(graph.size_info())
        blocks = block_sums(graph, target)
        self.scores = {n: s for n in nodes if n.op == "reduce" and (s := scores_of(n)) and not any(score in blocks for score, _ in s)}

    def add(self) -> None:
        if not self.scores:
            return
        by_key: dict[Key, list[Node]] = {}
        for n, scores in self.scores.items():
            for key in scores:
                by_key.setdefault(key, []).append(n)
        for key, readers in by_key.items():
            self.unite(key, [n for n in readers if n in self.group])
        for n in self.scores:
            if n not in self.group and not any(score in self.group for score, _ in self.scores[n]):
                self.join(n, by_key)
        self.users, self.values = users(self.graph), nominal(self.graph.size_info())
        self.outputs = {n for _, n in self.graph.outputs}
        for key, readers in sorted(by_key.items(), key=lambda item: -len(item[1])):  # those of the most readers make all other scores of these too
            if any(n in self.group for n in readers) or self.mixed(key, readers, by_key):
                continue
            both = [k for k in by_key if k[0] is key[0] and not self.mixed(k, by_key[k], by_key)]  # in one direction and in the other
            if all(self.worth(k, by_key[k]) for k in both) and self.again(key, [n for k in both for n in by_key[k]], len(both)):
                self.fresh(key, readers)

    def mixed(self, key: Key, readers: list[Node], by_key: Mapping[Key, list[Node]]) -> bool:
        """Whether these are planes of scores that are mixed (`planes.py`): what reads them are scores too, themselves read along one of the rows; no statistics of rows, of which there is one more."""
        return all(spread(n) and any((n, (a,)) in by_key for a in self.scores[n][key]) for n in readers)

    def unite(self, key: Key, readers: list[Node]) -> None:
        """One cascade of several that make the same scores, where none needs another's results."""
        for n in readers[1:]:
            first = readers[0]
            rows, place = self.group[first].places[first], dict(zip(self.scores[n][key], self.scores[first][key], strict=True))
            _merge(n, tuple(place.get(a, -1) for a in range(n.rank)), self.group[first], rows, self.group)

    def join(self, n: Node, by_key: dict[Key, list[Node]]) -> None:
        """Into the cascade that makes the scores which `n` reads, if that is there."""
        for key, rows in self.scores[n].items():
            for other in by_key[key]:
                g = self.group.get(other)
                if g is None or not apart([n], g.states):
                    continue
                place = dict(zip(self.scores[other][key], rows, strict=True))  # axis of the other → axis of n
                if not place.keys() >= set(g.places[other]):
                    continue  # one of the cascade's rows is an axis of extent 1 that the scores lack
                g.add(n, tuple(place[a] for a in g.places[other]))
                self.group[n] = g
                return

    def fresh(self, key: Key, readers: list[Node]) -> None:
        first = readers[0]
        rows = self.scores[first][key]
        g = Group(tuple(first.shape[a] for a in rows))
        for n in readers:
            if apart([n], g.states):
                g.add(n, self.scores[n][key])
                self.group[n] = g

    def worth(self, key: Key, readers: list[Node]) -> bool:
        """The scores are more than what they are made of, nobody else reads them, and no reader is a product with a matrix that all rows share."""
        if (
            not self.scores[readers[0]][key]
            or key[0] in self.group
            or not spread(key[0])
            or not private(key[0], {n for n, found in self.scores.items() if any(k[0] is key[0] for k in found)}, self.users, self.outputs)
        ):
            return False
        for n in readers:
            rows = self.scores[n][key]
            further = tuple(e for a, e in enumerate(n.shape) if a not in rows)
            if further and len(readers) == 1 and self.chain(n, key):
                self.reasons.append("no cascade: a product of three matrices: what is multiplied first is stored")
                return False
            if further and points(further, self.values) > WIDEST:
                self.reasons.append(f"no cascade: what a row sums would be more than {WIDEST} numbers, read and written once a tile of scores")
                return False
            if further and not self.batched(n, key):
                self.reasons.append(
                    "no cascade: all rows share the matrix that their scores are multiplied with, so the scores are stored, and both products packed"
                )
                return False
        return True

    def again(self, key: Key, readers: list[Node], directions: int) -> bool:
        """Whether scores are made in each direction in which they are read (`made_again.py`), or again by statistics before what is mixed."""
        score = key[0]
        of = [v.node for v in pointwise_reads(score) if v.node.op == "reduce" and spread(v.node)]
        if directions == 1 and all(private(n, {score}, self.users, self.outputs) for n in of):
            return True
        found = made_again(score, readers, self.known)
        if not found.yes:
            self.reasons.append(f"no cascade: {found.why}")
        return found.yes

    def chain(self, n: Node, key: Key) -> bool:
        """Whether the scores, which nobody else reads, are multiplied as they are, but for scales of rows and of columns: (A B) C, where A (B C) would be the same and the brackets say what is small."""
        along, rows = axis(n.rank), {axis(a) for a in self.scores[n][key]}
        further = {axis(a) for a in range(n.rank)} - rows
        factors, bare = [n.args[0]], False
        if not self.matrix_axes(n, rows) <= self.matrix_axes_of_scores(n, key):
            return False  # other brackets would multiply each plane of the second by each of the third
        for view in factors:
            moving = {e for index in view.index for e in leaves(index, "axis")}
            if view.domain is not None:
                return False  # a mask
            if view.node is key[0]:
                bare = True
            elif view.node.op in ("mul", "div", "neg", "cast"):
                factors += view.operands
                if view.node.op == "div" and factors[-1].node is key[0]:
                    return False  # what is divided by scores is no product with them
            elif along in moving and moving & rows and not moving & further:
                return False  # a weight of each score
        return bare

    def matrix_axes(self, n: Node, rows: set[Expr]) -> set[Expr]:
        """The rows with which the matrix moves that scores are multiplied with."""
        further = {axis(a) for a in range(n.rank)} - rows
        matrix = (v for v in pointwise_reads(n) if any(further.intersection(leaves(e, "axis")) for e in v.index))
        return rows.intersection(a for v in matrix for e in v.index for a in leaves(e, "axis"))

    def matrix_axes_of_scores(self, n: Node, key: Key) -> set[Expr]:
        """The rows with which that moves of which scores are made along the axis."""
        score, (at,) = key
        rows = dict(zip((axis(a) for a in range(score.rank) if a != at), map(axis, self.scores[n][key]), strict=True))
        along = (v for v in pointwise_reads(score) if any(axis(at) in leaves(e, "axis") for e in v.index))
        return {rows[a] for v in along for e in v.index for a in leaves(e, "axis") if a in rows}

    def batched(self, n: Node, key: Key) -> bool:
        """Whether the rows are of many batches, each with columns of its own: some axis of the rows that everything moves with, in the scores and in what they are multiplied with."""
        score, (at,) = key
        rows = self.scores[n][key]
        axes = [a for a in range(score.rank) if a != at]
        common = {k for k, a in enumerate(rows) if n.shape[a] is not ONE}
        further = {axis(a) for a in range(n.rank) if a not in rows}  # what moves with these is the matrix; the rest weighs
        for view in pointwise_reads(n):
            if any(further.intersection(leaves(e, "axis")) for e in view.index):
                common &= {k for k, a in enumerate(rows) if any(axis(a) in leaves(e, "axis") for e in view.index)}
        # of scores that are mixed of others, those are no matrix, nor are statistics of their rows
        mixed = any(v.node.op == "reduce" and axis(at) in v.index and spread(v.node) for v in pointwise_reads(score))
        for view in pointwise_reads(score):
            if view.node.op not in ("const", "iota") and view.node.rank and not (mixed and view.node.op in ("reduce", "cascade")):
                common &= {k for k, a in enumerate(axes) if any(axis(a) in leaves(e, "axis") for e in view.index)}
        return bool(common)


def _in_two_directions(a: Group, b: Group) -> bool:
    """Whether both read the same scores, one of them along their rows and the other along their columns."""
    along_a, along_b = (
        {
            (v.node, v.index.index(axis(n.rank)))
            for n in g.states
            if n.op == "reduce"
            for v in pointwise_reads(n)
            if v.node.op == "reduce" and axis(n.rank) in v.index
        }
        for g in (a, b)
    )
    return any(s is t and k != j for s, k in along_a for t, j in along_b)


def _meeting(graph: Graph, nodes: list[Node], group: dict[Node, Group]) -> None:
    """One cascade of several, each with scores of its own, whose results one value reads row by row: the difference of two softmaxes times V would else be two kernels, with sums in memory between them."""
    scored = {
        g for n, g in group.items() if any(v.node.op == "reduce" and axis(n.rank) in v.index and v.node not in group for v in pointwise_reads(n))
    }
    if len(scored) < 2:
        return
    for user in (*(n for _, n in graph.outputs), *(n for n in nodes if n.op not in OPS)):
        domain = tuple(axis(k) for k in range(user.rank))
        reads = reads_of(View(user, domain)) if user.op in OPS else (v for a in user.args for v in reads_of(a))
        met: dict[Group, tuple[Node, tuple[int, ...]]] = {}
        for v in reads:
            g = group.get(v.node)
            if g in scored and v.domain is None and all(e.op == "axis" for e in v.index):
                met.setdefault(g, (v.node, tuple(e.attr for e in v.index)))
        if len(met) < 2:
            continue
        (g, (first, at)), *others = met.items()
        rows = tuple(at[a] for a in g.places[first])
        for n, places in others:
            if _in_two_directions(n, g):
                continue  # one of them reads across memory
            if reduced(n) == reduced(g) and len(set(places[1])) == len(places[1]) and {places[1][a] for a in n.places[places[0]]} == set(rows):
                _merge(places[0], places[1], g, rows, group)


def reduced(g: Group) -> Shape:
    """What the states of a cascade run along."""
    return g.states[0].attr.extents
