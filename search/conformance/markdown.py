"""A report as Markdown: what it was run on, the contract of a runtime, then the composites."""

from __future__ import annotations

from collections.abc import Iterable

from .report import CLOSE, STATUSES, Report, Row, far, reason

SHOWN = 12  # names in a sentence
OPEN = 10  # a row is told of when one in so many points is not judged


def markdown(report: Report) -> str:
    parts = [head(report), *contract(report), *composites(report), *failures(report), *explained(report), *unjudged(report)]
    return "\n\n".join(parts) + "\n"


def head(report: Report) -> str:
    counts = report.summary()
    lines = [
        f"# The runtime {report.runtime}: what it computes right",
        "",
        f"`{report.command}`" + (" (a quick run: some dtypes and layouts only)" if report.quick else ""),
        "",
        f"- luminal {report.luminal}, Python {report.python}, NumPy {report.numpy}",
        f"- target: {report.target}",
        f"- tools: {report.tools}",
        f"- machine: {report.machine}; {report.seconds:g} s",
        f"- library `{report.library}`, runtime folder `{report.folder}` (hashes of what was tested)",
        "",
        ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s]) + f": rows of an operator or composite at one dtype; "
        f"{sum(r.passed for r in report.rows)} of {sum(r.cases for r in report.rows)} cases pass.",
        "",
        "A case is one kernel at one binding of its sizes, compared with the float64 reference (f64: extended precision). `median`, `p99`, `max`: of elementwise floats, "
        "in units of the last place from the correctly rounded result; `bound`: the largest error in units of the first-order error bound (above 1 is a mismatch).",
    ]
    return "\n".join(lines)


def contract(report: Report) -> Iterable[str]:
    """Primops, then derived operators as spelled and as decomposed."""
    for kind, title in (("primop", "Primops: the contract of a runtime"), ("derived", "Derived operators")):
        found = [r for r in report.rows if r.kind == kind]
        if found:
            yield "\n\n".join([f"## {title}", "\n".join(grid(found)), *(["\n".join(rows)] if (rows := table(found)) else []), *lacking(found)])


def grid(found: list[Row]) -> list[str]:
    """Names against dtypes: a mark each."""
    dtypes = list(dict.fromkeys(r.dtype for r in found))
    marks = {"passes": "✓", "mismatch": "✗", "not supported": "–", "compiler error": "C", "crash": "†", "time limit": "T"}
    lines = ["| | " + " | ".join(dtypes) + " |", "|---|" + "---|" * len(dtypes)]
    for name in dict.fromkeys(label(r) for r in found):
        at = {r.dtype: marks[r.status] for r in found if label(r) == name}
        lines.append(f"| {name} | " + " | ".join(at.get(d, "") for d in dtypes) + " |")
    return [
        *lines,
        "",
        "✓ passes · ✗ mismatch · C compiler error · † crash · T time limit · – not supported by the runtime · empty: not defined on this dtype",
    ]


def label(r: Row) -> str:
    return f"{r.name}, {r.form}" if r.form else r.name


def table(found: list[Row]) -> list[str]:
    lines = [line(r) for r in found if r.status != "not supported"]
    return ["| operator | dtype | status | cases | median | p99 | max | bound |", "|---|---|---|---|---|---|---|---|", *lines] if lines else []


def line(r: Row) -> str:
    ulp = " | ".join(far(d) if r.elementwise else "" for d in (r.ulp_median, r.ulp_p99, r.ulp_max))
    return f"| {label(r)} | {r.dtype} | {r.status} | {r.passed}/{r.cases} | {ulp} | {r.ratio:.2g} |"


def composites(report: Report) -> Iterable[str]:
    families: dict[str, list[Row]] = {}
    for r in report.rows:
        if r.kind == "composite":
            families.setdefault(r.family, []).append(r)
    if families:
        yield "## Composites"
    for family, found in families.items():
        yield "\n\n".join([f"### {family}", *(["\n".join(rows)] if (rows := table(found)) else []), *lacking(found)])


def lacking(found: list[Row]) -> list[str]:
    """What is not supported, by the primop or dtype that is missing."""
    by: dict[str, list[str]] = {}
    for r in found:
        if r.status == "not supported":
            by.setdefault(r.what, []).append(label(r))
    names = {what: list(dict.fromkeys(among)) for what, among in by.items()}
    return ["Not supported, for want of " + "; of ".join(f"`{what}`: {few(among)}" for what, among in names.items()) + "."] if by else []


def few(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def failures(report: Report) -> Iterable[str]:
    found = [r for r in report.rows if r.command]
    if found:
        yield "## What fails, and how to see it\n\n" + "\n\n".join(
            f"**{label(r)}, {r.dtype}: {r.status}.** {shortened(r.detail)}\n\n```\n{r.command}\n```" for r in found
        )


def explained(report: Report) -> Iterable[str]:
    """How near elementwise floats are, by dtype, and every exception with its reason."""
    judged = [r for r in report.rows if r.elementwise and r.status == "passes"]
    if not judged:
        return
    lines = ["| dtype | rows | of them with median 0 | with p99 ≤ 2 |", "|---|---|---|---|"]
    for dtype in dict.fromkeys(r.dtype for r in judged):
        of = [r for r in judged if r.dtype == dtype]
        lines.append(f"| {dtype} | {len(of)} | {sum(not r.ulp_median for r in of)} | {sum(r.ulp_p99 <= CLOSE for r in of)} |")
    yield "## Elementwise floats, in units of the last place\n\n" + "\n".join(lines)
    exceptions = [f"- {label(r)}, {r.dtype}: median {far(r.ulp_median)}, p99 {far(r.ulp_p99)}; {why}" for r in judged if (why := reason(r))]
    if exceptions:
        yield "The others, and why:\n\n" + "\n".join(exceptions)


def unjudged(report: Report) -> Iterable[str]:
    """Rows of which a tenth or more of the points are not judged."""
    found = [r for r in report.rows if r.status == "passes" and r.undecided * OPEN >= max(r.points, 1)]
    if found:
        yield (
            "## Points that are not judged\n\nWhere what is compared, rounded down, converted to an integer or taken as bits is known within an error bound only, a right "
            "result may be on either side; where a bound overflows, any result is within it. Rows with a tenth or more of such points:\n\n"
            + "\n".join(f"- {label(r)}, {r.dtype}: {r.undecided / r.points:.0%} of {r.points}" for r in found)
        )


def shortened(text: str) -> str:
    lines = [" ".join(part.split()) for part in text.splitlines() if part.strip()]
    whole = " ".join(lines[:6])
    return whole if len(whole) <= 600 else f"{whole[:599]}…"
