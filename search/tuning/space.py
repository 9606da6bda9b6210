"""The neighbours of a schedule: the same script with one decision taken otherwise.

A script holds every decision that the automatic scheduler has taken, so nothing here knows what a kernel computes:

    split i 8 tail=clamp      the number: 4, 6, 7, 9, 10, 12, 16; alone, or with what else is this number, or with its multiples too
    tile j k 128 128          the same
    split_reduction p 64      the same, and so `share i.0 4 multiple=2`
    reorder i.0 j.0 i.1 …     the two outermost axes the other way round, the threads with them
    unroll, interior, …       without

A neighbour may be no schedule at all: a step that does not apply is refused when the script is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator

Script = tuple[str, ...]

_NUMBERED = frozenset({"split", "share", "tile", "split_reduction"})
_DISPENSABLE = frozenset({"unroll", "interior", "unswitch", "tabulate", "prefetch", "prefetch_group", "stream_store"})
_MULTIPLES = 8  # of a number, up to so many times, that change with it
_LARGEST = 4096


def neighbours(script: Script) -> Iterator[tuple[str, Script]]:
    """(what is otherwise, the script), each script once; the order is that of the script's lines."""
    seen = {script}
    for what, lines in _all(script):
        if lines not in seen:
            seen.add(lines)
            yield what, lines


def _all(script: Script) -> Iterator[tuple[str, Script]]:
    places = [(k, w) for k, line in enumerate(script) for w in _numbers(line)]
    for k, w in places:
        n = int(script[k].split()[w])
        for v in values(n):
            yield f"{_head(script[k], w)} {n} → {v}", _with(script, {(k, w): v})
    found = list(dict.fromkeys(int(script[k].split()[w]) for k, w in places))
    for n in found:
        equal = [(k, w) for k, w in places if int(script[k].split()[w]) == n]
        scaled = {(k, w): q for k, w in places if (q := _ratio(int(script[k].split()[w]), n))}
        for v in values(n):
            if len(equal) > 1:
                yield f"every {n} → {v}", _with(script, dict.fromkeys(equal, v))
            if len(scaled) > len(equal):
                yield f"every {n} → {v}, and its multiples", _with(script, {place: q * v for place, q in scaled.items()})
    for k, line in enumerate(script):
        name = line.split()[0]
        if name == "reorder":
            yield from _turned(script, k)
        if name in _DISPENSABLE:
            yield f"no {line}", (*script[:k], *script[k + 1 :])


def values(n: int) -> tuple[int, ...]:
    """Other numbers near n: half, twice, three halves; of small ones the next ones too."""
    near = {n // 2, n * 2, n * 3 // 2, n * 3 // 4} | ({n - 2, n - 1, n + 1, n + 2} if n <= 16 else set())
    return tuple(sorted(v for v in near if 1 <= v <= _LARGEST and v != n))


def _numbers(line: str) -> list[int]:
    """The places of the numbers among the words of a line."""
    words = line.split()
    return [w for w, word in enumerate(words) if word.isdecimal()] if words[0] in _NUMBERED else []


def _head(line: str, place: int) -> str:
    return " ".join(line.split()[:place])


def _ratio(m: int, n: int) -> int:
    """How often n goes into m, 0 where it does not, or too often."""
    return m // n if m % n == 0 and m // n <= _MULTIPLES else 0


def _with(script: Script, changed: dict[tuple[int, int], int]) -> Script:
    lines = [line.split() for line in script]
    for (k, w), v in changed.items():
        lines[k][w] = str(v)
    return tuple(" ".join(words) for words in lines)


def _turned(script: Script, k: int) -> Iterator[tuple[str, Script]]:
    words = script[k].split()
    if len(words) < 3:
        return
    _, a, b, *rest = words
    line = " ".join(["reorder", b, a, *rest])
    after = tuple(f"parallel {b}" if other == f"parallel {a}" else other for other in script[k + 1 :])
    yield f"{b} outside of {a}", (*script[:k], line, *after)
