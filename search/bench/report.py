"""Rows as text: one line each."""

from __future__ import annotations

from .measure import OURS, Row, show


def table_head(width: int = 34) -> str:
    return f"{'sizes':<{width}}{OURS:>11}{'best peer':>26}{'ratio':>8} {'noise':<8}{'of ceiling':<14}rate"


def line(row: Row, name: str = "", width: int = 34) -> str:
    """`name` stands before the sizes where rows of several composites are listed together."""
    at = f"{' '.join(filter(None, (name, show(row.sizes)))) or '-':<{width}}"
    notes = "".join(f"\n    {note}" for note in row.notes)
    if not row.ok:
        said = row.checked.detail or ", ".join(f"{o.name}: {o.max_bound_ratio:.3g} of the bound" for o in row.checked.outputs if not o.ok)
        return f"{at}WRONG: {row.checked.status}: {said}; not timed{notes}"
    best = row.best_peer
    peer = f"{duration(row.seconds(best))} {best}" if best else "no peer"
    ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
    noise = "tie" if row.tie else f"±{row.noise:.2f}" if row.noise is not None else ""
    ceiling = f"{row.of_ceiling:.0%} {row.ceiling}" if row.of_ceiling is not None else ""
    return f"{at}{duration(row.seconds()):>11}{peer:>26}{ratio:>8} {noise:<8}{ceiling:<14}{rate(row)}{others(row)}{notes}"


def others(row: Row) -> str:
    """The peers that are not the best."""
    found = [f"{name} {duration(row.seconds(name))}" for name in row.minima if name not in (OURS, row.best_peer)]
    return f"  ({', '.join(found)})" if found else ""


def rate(row: Row) -> str:
    """In the unit of what bounds the row; nothing where nothing was counted."""
    seconds = row.seconds()
    if not row.flops and not row.bytes:
        return ""
    if row.ceiling == "fma" or (not row.ceiling and row.flops > 4 * row.bytes):
        return f"{row.flops / seconds / 1e9:.1f} GFLOP/s"
    return f"{row.bytes / seconds / 1e9:.1f} GB/s"


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{seconds / scale:.4g} {unit}"
    return ""
