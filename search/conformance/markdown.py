"""A report as Markdown: what it was run on, the contract of a runtime, then the composites."""

from __future__ import annotations

from collections.abc import Iterable

from .report import STATUSES, Report, Row, far, reason


def markdown(report: Report) -> str:
    parts = [head(report), *contract(report), *composites(report), *failures(report), *explained(report)]
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
        "A case is one kernel at one binding of its sizes, compared with the float64 reference (f64: extended precision). `max`, `p99`: of elementwise floats, in "
        "units of the last place from the correctly rounded result; `bound`: the largest error in units of the first-order error bound (above 1 is a mismatch).",
    ]
    return "\n".join(lines)


def contract(report: Report) -> Iterable[str]:
    """Primops, then derived operators as spelled and as decomposed."""
    for kind, title in (("primop", "Primops: the contract of a runtime"), ("derived", "Derived operators")):
        found = [r for r in report.rows if r.kind == kind]
        if found:
            yield f"## {title}\n\n" + "\n".join(grid(found)) + "\n\n" + "\n".join(table(found))


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
    lines = ["| operator | dtype | status | cases | max | p99 | bound |", "|---|---|---|---|---|---|---|"]
    return lines + [line(r) for r in found if r.status != "not supported"]


def line(r: Row) -> str:
    ulp = (far(r.ulp_max), far(r.ulp_p99)) if r.elementwise else ("", "")
    status = f"not supported ({r.what})" if r.what else r.status
    return f"| {label(r)} | {r.dtype} | {status} | {r.passed}/{r.cases} | {ulp[0]} | {ulp[1]} | {r.ratio:.2g} |"


def composites(report: Report) -> Iterable[str]:
    families: dict[str, list[Row]] = {}
    for r in report.rows:
        if r.kind == "composite":
            families.setdefault(r.family, []).append(r)
    if families:
        yield "## Composites"
    for family, found in families.items():
        lacking = [r for r in found if r.status == "not supported"]
        text = f"### {family}\n\n" + "\n".join(table(found))
        if lacking:
            by: dict[str, list[str]] = {}
            for r in lacking:
                by.setdefault(r.what, []).append(r.name)
            text += "\n\nNot supported: " + "; ".join(f"{what} ({len(names)} composites)" for what, names in by.items()) + "."
        yield text


def failures(report: Report) -> Iterable[str]:
    found = [r for r in report.rows if r.command]
    if found:
        yield "## What fails, and how to see it\n\n" + "\n\n".join(
            f"**{label(r)}, {r.dtype}: {r.status}.** {shortened(r.detail)}\n\n```\n{r.command}\n```" for r in found
        )


def explained(report: Report) -> Iterable[str]:
    found = [(r, reason(r)) for r in report.rows]
    lines = [f"- {label(r)}, {r.dtype}: p99 {far(r.ulp_p99)} ULP; {why}" for r, why in found if why]
    if lines:
        yield "## Elementwise results farther than 2 ULP at p99, and why\n\n" + "\n".join(lines)


def shortened(text: str) -> str:
    lines = [" ".join(part.split()) for part in text.splitlines() if part.strip()]
    whole = " ".join(lines[:6])
    return whole if len(whole) <= 600 else f"{whole[:599]}…"
