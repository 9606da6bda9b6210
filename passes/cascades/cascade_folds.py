"""Which loops that stayed loops go on from tile to tile of a cascade (`folds.py`), beside the reductions of the same scores.

They read scores that nobody else wants but the reductions of the cascade; what else they read of it, they read in an order that stays (`folds.order`).  Where a value has been divided by a sum
relative to each extreme that was subtracted, it is NaN all along a row of which the extreme is no number.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.expr import Expr, axis
from ...ir.graph import Graph, Node, View, identity, postorder, users
from ...ir.kernel import Nest
from ...ir.primops import OPS
from ...ir.walks import leaves
from ..reading import reads_of
from .cascade_groups import Corrected, Group, apart
from .folds import Order, copies, fold, order
from .scores import Key, private, scores_of, spread
from .separate import unguarded


def with_folds(graph: Graph, group: dict[Node, Group], corrected: Mapping[Node, Corrected]) -> dict[Node, Group]:
    """State → the cascade that it belongs to, with those loops among them."""
    nests: dict[tuple[Nest | None, tuple[View, ...]], list[Node]] = {}
    for n in graph.nodes():
        if n.op == "nest":
            nests.setdefault((n.attr.nest, n.args), []).append(n)
    if not nests:
        return group
    adding = _Adding(graph, dict(group), corrected)
    for results in nests.values():
        adding.one(results)
    return adding.group


class _Adding:
    def __init__(self, graph: Graph, group: dict[Node, Group], corrected: Mapping[Node, Corrected]) -> None:
        self.group, self.corrected = group, corrected
        self.users, self.outputs = users(graph), frozenset(n for _, n in graph.outputs)
        self.readers = {n: scores for n in graph.nodes() if n.op == "reduce" and (scores := scores_of(n))}

    def one(self, results: list[Node]) -> None:
        form = fold(results[0])
        walked = results[0].args[0].node if results[0].args else None
        if walked is None or form is None or walked in self.outputs or any(user not in results for user, _ in self.users[walked]):
            return
        kept = order(walked, self.group)
        if kept is None or (kept.steps and (copies(results[0], form) is None or not self.together(kept))):
            return
        scores = _scores(kept.score, walked.rank)
        read = self.states_of(walked)
        if read:
            state, at = read[0]
            g = self.group[state]
            places = tuple(at[a].attr if at[a].op == "axis" else -1 for a in g.places[state])
        elif scores and (found := self.beside_others(scores)) is not None:
            g, places = found
        else:
            return
        readers = {*results, *g.states, *(n for n in self.readers if self.readers[n].keys() & scores.keys())}
        if not scores or not all(private(s, readers, self.users, self.outputs) for s, _ in scores):
            return
        if set(results).isdisjoint(postorder(*g.states)) and all(self.at_rows(state, at, g, places) for state, at in read):
            for n in results:
                g.add(n, places)
            self.group.update((n, g) for n in g.states)

    def beside_others(self, scores: dict[Key, tuple[int, ...]]) -> tuple[Group, tuple[int, ...]] | None:
        """A cascade of reductions of one of these scores, and where the loop has its rows; one that is not there yet, of all those reductions, where there is none and scores are more than what they are made of."""
        for key, rows in scores.items():
            for n, keys in self.readers.items():
                if key in keys and n in self.group:
                    place = dict(zip(keys[key], rows, strict=True))
                    return self.group[n], tuple(place.get(a, -1) for a in self.group[n].places[n])
        key, rows = next(iter(scores.items()))
        if key[0] in self.group or not spread(key[0]):
            return None
        shape = key[0].shape
        g = Group(tuple(e for a, e in enumerate(shape) if a not in key[1]))
        for n, keys in self.readers.items():
            if key in keys and apart([n], g.states):
                g.add(n, keys[key])
        return g, rows

    def together(self, kept: Order) -> bool:
        """Whether what is subtracted is an extreme each, and what divides holds a sum relative to it: NaN where the extreme is no number."""
        sums = [n for f in kept.factors for n in postorder(f.node) if n in self.corrected]
        relative = {unguarded(t.view).node for n in sums for e in self.corrected[n].exponents for t in e.moving}
        return all(unguarded(t).node in relative for t in kept.terms)

    def states_of(self, walked: Node) -> list[tuple[Node, tuple[Expr, ...]]]:
        """The states that a walked value reads, and where."""
        found: dict[tuple[Node, tuple[Expr, ...]], None] = {}
        stack, seen = [identity(walked)], set()
        while stack:
            view = stack.pop()
            if (view.node, view.index) in seen:
                continue
            seen.add((view.node, view.index))
            if view.node in self.group:
                found[view.node, view.index] = None
            elif view.node.op in OPS:
                stack += view.operands
        return list(found)

    def at_rows(self, state: Node, at: tuple[Expr, ...], g: Group, places: tuple[int, ...]) -> bool:
        """Whether a state of the cascade is read at the loop's own row."""
        return self.group[state] is g and state.rank == len(places) and tuple(at[a] for a in g.places[state]) == tuple(axis(p) for p in places)


def _scores(score: View, rank: int) -> dict[Key, tuple[int, ...]]:
    """The reductions that a score over (rows, axis) is made of, each with the rows at which its own are read; nothing where some are read otherwise."""
    along = axis(rank - 1)
    found: dict[Key, tuple[int, ...]] = {}
    for view in reads_of(score):
        if view.node.op != "reduce" or not any(along in leaves(e, "axis") for e in view.index):
            continue
        if any(e.op != "axis" for e in view.index) or len(set(view.index)) != len(view.index) or view.node.rank != rank:
            return {}
        at = view.index.index(along)
        found[view.node, (at,)] = tuple(e.attr for e in view.index if e is not along)
    return found
