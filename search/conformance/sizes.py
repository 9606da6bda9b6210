"""Which sizes a kernel is run at: none, one, primes, beside a tile, and one large."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from ...ir.evaluate import evaluate, holds
from ...ir.graph import Graph
from ..operations import work_of

CLASSES = ("own", "zero", "one", "prime", "tile", "large")
_PRIMES = (13, 7, 29, 5, 17, 11, 3, 19)
_TILE = 32  # a multiple of every vector that there is, and no kernel's block
_LARGE = (257, 131, 67, 34, 19, 11, 7)
# operations of the largest case; a loop that stays one is interpreted an iteration at a time
_WORK, _WORK_QUICK, _WORK_NEST, _WORK_NEST_QUICK = 20_000_000, 2_000_000, 40_000, 4_000
_SLOWER = 10  # an interpreter is given so much less work
_ELEMENTS, _ELEMENTS_QUICK = 1_000_000, 60_000
_TRIES = 4000  # candidates looked at where the preconditions are narrow


def bindings(graph: Graph, own: tuple[dict[str, Any], ...], quick: bool, interpreted: bool = False) -> list[tuple[str, dict[str, int]]]:
    """(class, binding) in the order of CLASSES, no binding twice, all of them legal, and none that takes too long on a runtime that is `interpreted`."""
    names = [s.name for s in graph.sizes]
    given = [b for b in (_own(graph, o) for o in own) if b is not None and legal(graph, b)]
    base = given[-1] if given else _search(graph)
    if base is None:
        return []
    found: list[tuple[str, dict[str, int] | None]] = [("own", b) for b in ([] if quick else given)]
    found += [("zero", b) for b in _zeros(graph, base, quick)]
    found.append(("one", adapted(graph, dict.fromkeys(names, 1), base)))
    found.append(("prime", adapted(graph, {n: _PRIMES[k % len(_PRIMES)] for k, n in enumerate(names)}, base)))
    found += [("tile", adapted(graph, {n: _beside(k, len(names), by) for k, n in enumerate(names)}, base)) for by in (-1, 1)]
    found.append(("large", _large(graph, base, quick, interpreted)))
    chosen: list[tuple[str, dict[str, int]]] = []
    for kind, binding in found:
        if binding is not None and all(binding != b for _, b in chosen) and affordable(graph, binding, quick, interpreted):
            chosen.append((kind, binding))
    return chosen or [("own", base)]


def legal(graph: Graph, binding: Mapping[str, int]) -> bool:
    """Whether the emitted function takes these sizes."""
    if any(not s.min <= binding[s.name] <= s.max or binding[s.name] % s.multiple for s in graph.sizes):
        return False
    try:
        if any(evaluate(extent, binding) < 0 for p in graph.ports for extent in p.shape):
            return False
    except ZeroDivisionError:
        return False
    return all(holds(r, binding) for r in graph.requires)


def adapted(graph: Graph, wanted: dict[str, int], base: Mapping[str, int]) -> dict[str, int] | None:
    """`wanted`, with as few sizes as possible put back to those of `base` so that it is legal; None where only `base` is."""
    for s in graph.sizes:
        if wanted[s.name] % s.multiple:
            wanted = wanted | {s.name: max(1, round(wanted[s.name] / s.multiple)) * s.multiple}
    tries = 0
    for count in range(len(wanted)):
        for kept in combinations(wanted, count):
            candidate = wanted | {n: base[n] for n in kept}
            tries += 1
            if legal(graph, candidate):
                return candidate
            if tries >= _TRIES:
                return None
    return None


def affordable(graph: Graph, binding: Mapping[str, int], quick: bool, interpreted: bool = False) -> bool:
    elements = sum(math.prod(max(0, evaluate(e, binding)) for e in p.shape) for p in graph.ports)
    if any(n.op == "nest" for n in graph.nodes()):
        return max(elements, math.prod(max(1, v) for v in binding.values())) <= (_WORK_NEST_QUICK if quick else _WORK_NEST)
    work = work_of(graph, binding)[0]
    return work <= (_WORK_QUICK if quick else _WORK) // (_SLOWER if interpreted else 1) and elements <= (_ELEMENTS_QUICK if quick else _ELEMENTS)


def _own(graph: Graph, binding: dict[str, Any]) -> dict[str, int] | None:
    """A binding of the composite's own tests, for this instance: what `~` stands for may be several axes here."""
    found: dict[str, int] = {}
    for s in graph.sizes:
        name = s.name
        if name not in binding and name.startswith("batch_"):
            found[name] = int(binding.get("batch", 1)) if name.endswith("_0") else 2
        elif isinstance(binding.get(name), int):
            found[name] = binding[name]
        else:
            return None
    return found


def _beside(k: int, count: int, by: int) -> int:
    """One less or more than a tile; of many sizes the later ones are beside a smaller one."""
    return max(1, (_TILE if k < 2 or count <= 2 else _TILE // 4) + by)


def _zeros(graph: Graph, base: dict[str, int], quick: bool) -> Iterator[dict[str, int]]:
    """One size 0 at a time, then all."""
    whole = dict.fromkeys(base, 0)
    candidates = [base | {n: 0} for n in base] + [whole]
    found = [c for c in candidates if legal(graph, c)]
    yield from found[:1] + found[-1:] if quick else found


def _large(graph: Graph, base: dict[str, int], quick: bool, interpreted: bool) -> dict[str, int] | None:
    """As large as is affordable: an odd number along each size, halved together until it is."""
    count = len(base)
    start = [_ELEMENTS // 10 + 3] if count == 1 else [_LARGE[min(k, len(_LARGE) - 1)] * 2 - 1 for k in range(count)]
    for halvings in range(14):
        wanted = {n: max(2, (v >> halvings) | 1) for n, v in zip(base, start, strict=True)}
        candidate = adapted(graph, wanted, base)
        if candidate is not None and affordable(graph, candidate, quick, interpreted):
            return candidate
    return None


def _search(graph: Graph) -> dict[str, int] | None:
    """Small odd sizes, else equal ones, that keep the preconditions."""
    names = [s.name for s in graph.sizes]
    candidates = [dict(zip(names, (b + 2 * k for k in range(len(names))), strict=True)) for b in (7, 3, 13, 1)]
    candidates += [dict.fromkeys(names, n) for n in (8, 16, 4, 2, 1, 24, 32, 64, 96)]
    return next((c for c in candidates if legal(graph, c)), None)
