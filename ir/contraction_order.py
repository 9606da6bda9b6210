"""In which order the operands of a contraction are multiplied, two at a time: what that costs is counted in multiplications."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Names = Sequence[str]
Volume = Callable[[Names], int]  # of the box over these names

MAX_SEARCHED = 8  # operands; the orders of more are too many (3^n splits are compared)


def kept_names(a: Names, b: Names, rest: Sequence[Names], output: Names) -> list[str]:
    """What the result, or a later contraction, still needs of a pair's names: those of the result, in its order, and what is summed later behind them, but before the result's last axis, unless another
    operand has these the other way round.  So what is summed later is consecutive in rows or, as in the second matrix of a product, columns are."""
    pair = dict.fromkeys([*a, *b])
    kept = [n for n in output if n in pair]
    summed = [n for n in pair if n not in output and any(n in names for names in rest)]
    last = output[-1:] if kept and kept[-1] == output[-1] else []
    if last and any(names.index(last[0]) < names.index(s) for names in rest for s in summed if last[0] in names and s in names):
        last = []
    return [*kept[: len(kept) - len(last)], *summed, *last]


def contraction_order(terms: Sequence[Names], output: Names, volume: Volume) -> list[tuple[int, int]]:
    """The pairs to contract, as places in the list of what is left: the two are taken out of it, their product is put at its end.
    The cheapest pair first, then the next, unless all orders of a few operands hold one with fewer multiplications in all."""
    greedy, cost = _greedy(terms, output, volume)
    if not 3 <= len(terms) <= MAX_SEARCHED:
        return greedy
    tree, best = _best(terms, output, volume)
    return _pairs(tree, len(terms)) if best < cost else greedy


def _greedy(terms: Sequence[Names], output: Names, volume: Volume) -> tuple[list[tuple[int, int]], int]:
    """The pair with the fewest multiplications, then the smallest result, the first of equals; again until one is left.  And all its multiplications."""
    pending, pairs, total = list(terms), list[tuple[int, int]](), 0
    while len(pending) > 1:
        found: tuple[int, int, int, int] | None = None
        for i in range(len(pending)):
            for j in range(i + 1, len(pending)):
                rest = [p for k, p in enumerate(pending) if k not in (i, j)]
                joint = list(dict.fromkeys([*pending[i], *pending[j]]))
                cost = (volume(joint), volume(kept_names(pending[i], pending[j], rest, output)), i, j)
                found = cost if found is None else min(found, cost)
        assert found is not None
        i, j = found[2:]
        rest = [p for k, p in enumerate(pending) if k not in (i, j)]
        pending = [*rest, kept_names(pending[i], pending[j], rest, output)]
        pairs.append((i, j))
        total += found[0]
    return pairs, total


Tree = int | tuple["Tree", "Tree"]


def _best(terms: Sequence[Names], output: Names, volume: Volume) -> tuple[Tree, int]:
    """Of all binary trees over the operands one with the fewest multiplications, and these: for each set of operands the best split."""
    everything = (1 << len(terms)) - 1

    def names(some: int) -> Names:
        """Of the product of a set of operands (bits)."""
        inside = [t for k, t in enumerate(terms) if some >> k & 1]
        if len(inside) == 1:
            return inside[0]
        return kept_names([n for t in inside for n in t], (), [t for k, t in enumerate(terms) if not some >> k & 1], output)

    found: dict[int, tuple[int, Tree]] = {1 << k: (0, k) for k in range(len(terms))}
    left = {some: names(some) for some in range(1, everything + 1)}
    for some in range(1, everything + 1):
        if some in found:
            continue
        first = some & -some
        part = (some - 1) & some
        while part:
            if part & first:  # each split once
                a, b = found[part], found[some ^ part]
                cost = a[0] + b[0] + volume(list(dict.fromkeys([*left[part], *left[some ^ part]])))
                if some not in found or cost < found[some][0]:
                    found[some] = (cost, (a[1], b[1]))
            part = (part - 1) & some
    cost, tree = found[everything]
    return tree, cost


def _pairs(tree: Tree, count: int) -> list[tuple[int, int]]:
    """A tree over operands as pairs of places, its leaves first; of each pair first what holds the earliest operand, whose axes so stay the outer ones."""
    pending: list[Tree] = list(range(count))
    pairs = list[tuple[int, int]]()

    def product(t: Tree) -> None:
        if isinstance(t, int):
            return
        for part in t:
            product(part)
        pairs.append((pending.index(t[0]), pending.index(t[1])))
        for part in t:
            pending.remove(part)
        pending.append(t)

    product(tree)
    return pairs
