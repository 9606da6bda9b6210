"""`--test`: which bindings are tried, and how results are printed."""

from __future__ import annotations

import statistics
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..compiler import Compilation
from ..ir.errors import UsageError
from ..ir.evaluate import evaluate, holds
from ..ir.graph import Size
from ..ir.layout import dense, strides_of
from ..ir.numbers import number_for
from .parse import Bindings
from .progress import stage

if TYPE_CHECKING:
    from ..search.trial import Result

MOST = 1 << 44  # elements of one tensor


def test(compilation: Compilation, tried: list[Bindings], options: dict[str, Any], report: dict[str, Any], log: list[str]) -> int:
    """Run every binding of each that is tried; print one row per output; give the exit status (0, 3, or 124 where the only failure is a time limit)."""
    from ..search.child import Child
    from ..search.trial import run

    with stage(f"building {compilation.name}", quiet=options["as_json"]):
        subject = subject_of(compilation, log)
    results: list[Result] = []
    with Child(compilation.runtime.environment(compilation.target)) as child:
        for sizes, scalars in (b for given in tried for b in bindings(compilation, given)):
            given = {**scalars, **inputs_of(options["given"])}
            save = {name: Path(path) for name, path in pairs(options["kept"], "--output")}
            unknown = [n for n in (*given, *save) if n not in {p.name for p in subject.graph.ports}]
            if unknown:
                raise UsageError(
                    f"--input/--output: {subject.graph.name} has no port {unknown[0]}; ports: {', '.join(p.name for p in subject.graph.ports)}"
                )
            outputs = [p.name for p in subject.graph.ports if p.role in ("out", "inout")]
            for name, path in save.items():
                if name not in outputs:
                    raise UsageError(f"--output: {name} is no output of {subject.graph.name}; outputs: {', '.join(outputs)}")
                if path.suffix != ".npy":
                    raise UsageError(f"--output {name}={path}: what is kept is a .npy file")
            with stage(f"testing {subject.graph.name} at {' '.join(f'{k}={v}' for k, v in sizes.items())}", quiet=options["as_json"]):
                result = run(subject, sizes, child=child, seed=options["seed"], given=given, save=save, timeout=options["timeout"])
            results.append(result)
            if not options["as_json"]:
                print_result(result)
    report["results"] += [r.as_json() for r in results]
    failed = {r.status for r in results if not r.ok}
    if not failed:
        return 0
    return 124 if failed == {"timeout"} else 3


def subject_of(compilation: Compilation, log: list[str]) -> Any:
    from ..search.trial import Subject

    s = compilation.settings
    graph = compilation.elaborate()
    program = compilation.program
    # what is judged by another bound is written down after these passes; else all passes on the graph are done
    raised = compilation.run(stop_after="simplify") if s.fast else compilation.graph if compilation.start == "graph" else graph
    written = compilation.run(stop_after="shorten_filters") if s.fast else None
    return Subject(
        graph, program, compilation.library_path(log), s.runtime, compilation.runtime.name, s.target, s.config, s.portable, s.prefix,
        compilation.kernels, raised, compilation.opinion(), written,
    )  # fmt: skip


def bindings(compilation: Compilation, given: Bindings, option: str = "--test") -> list[tuple[dict[str, int], dict[str, Any]]]:
    """The bindings to try: the one on the command line; else the composite's own `[test] sizes`; else small odd ones.  Sizes that break a precondition are an error."""
    graph = compilation.elaborate()
    names = [s.name for s in graph.sizes]
    scalars = {p.name: p for p in graph.ports if p.role == "scalar"}
    if compilation.settings.without:  # what only an absent port has is bound for the others
        given = {k: v for k, v in given.items() if k in names or k in scalars or k not in everywhere(compilation)}
    unknown = [k for k in given if k not in names and k not in scalars]
    if unknown:
        from difflib import get_close_matches

        close = get_close_matches(unknown[0], [*names, *scalars], 1)
        raise UsageError(
            f"{option}: {graph.name} has no size or scalar {unknown[0]}"
            + (f"; nearest: {close[0]}" if close else f"; it has {', '.join([*names, *scalars]) or 'none'}")
        )
    bound_scalars: dict[str, Any] = {k: v for k, v in given.items() if k in scalars}
    sizes = {k: v for k, v in given.items() if k not in scalars}
    for k, v in sizes.items():
        if not isinstance(v, int):
            raise UsageError(f"{option}: {k}={v}: a size is an integer")
    strides = strides_of(graph.ports)
    if sizes or not names:
        missing = [n for n in names if n not in sizes and n not in strides]
        if missing:
            raise UsageError(f"{option}: {graph.name} also needs {', '.join(missing)}")
        whole = dense(graph.ports, {n: int(v) for n, v in sizes.items()})
        chosen = [({n: int(whole[n]) for n in names}, {})]
    else:
        chosen = own_bindings(compilation, names, list(scalars)) or [(odd, {}) for odd in odd_sizes(compilation, names)]
    for binding, _ in chosen:
        check(compilation, binding, option)
    found = [(b, own | bound_scalars) for b, own in chosen]
    for name, value in {(k, v) for _, own in found for k, v in own.items()}:
        try:
            number_for(scalars[name])(value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{option}: {name}={value}: {error}") from None
    return found


def everywhere(compilation: Compilation) -> list[str]:
    """The sizes and scalars of the composite with all its optional ports."""
    graph = compilation.variant(()).elaborate()
    return [*(s.name for s in graph.sizes), *(p.name for p in graph.ports if p.role == "scalar")]


def own_bindings(compilation: Compilation, names: list[str], scalars: list[str]) -> list[tuple[dict[str, int], dict[str, Any]]]:
    """What the composite's `[test]` lists, sizes and scalar ports; under --assume, those that it admits."""
    if compilation.composite is None:
        return []
    ports = compilation.elaborate().ports
    free = [n for n in names if n not in strides_of(ports)]
    listed = [(dense(ports, {n: int(b[n]) for n in names if n in b}), b) for b in compilation.composite.test.sizes if all(n in b for n in free)]
    found = [({n: int(whole[n]) for n in names}, {n: b[n] for n in scalars if n in b}) for whole, b in listed]
    if not compilation.settings.assume:
        return found
    return [(b, own) for b, own in found if all(holds(r, b) for r in compilation.elaborate().requires)]


def odd_sizes(compilation: Compilation, names: list[str]) -> list[dict[str, int]]:
    """Three small bindings of odd numbers that keep the preconditions, found by trying; strided ports lie without gaps in the first and with gaps in others."""
    graph = compilation.elaborate()
    strides = strides_of(graph.ports)
    free = [n for n in names if n not in strides]
    candidates = [{n: base + 2 * k for k, n in enumerate(free)} for base in (1, 3, 7, 13)] + [
        dict.fromkeys(free, n) for n in (1, 2, 4, 8, 16, 24, 32, 64, 96)
    ]
    fit: list[dict[str, int]] = []
    for c in candidates:
        laid = [dense(graph.ports, c, gap) for gap in ((len(fit), 0) if strides and fit else (0,))]
        fit += [{n: b[n] for n in names} for b in laid if all(holds(r, b) for r in graph.requires)][:1]
    if not fit:
        raise UsageError(f"--test: no small sizes meet the preconditions of {graph.name}; name them")
    return fit[:3]


def check(compilation: Compilation, binding: dict[str, int], option: str) -> None:
    graph = compilation.elaborate()
    for size in graph.sizes:
        admitted(size, binding[size.name], option)
    for condition in graph.requires:
        if not holds(condition, binding):
            raise UsageError(f"{option}: the sizes break the precondition {condition!r} of {graph.name}")
    for port in graph.ports:
        if (count := prod(evaluate(e, binding) for e in port.shape)) > MOST:
            raise UsageError(f"{option}: {port.name} would have {count} elements; no machine has memory for more than {MOST}")


def admitted(size: Size, value: int, option: str) -> None:
    """UsageError where a size cannot be of this value."""
    if value < size.min or value > size.max or value % size.multiple:
        raise UsageError(
            f"{option}: {size.name}={value}: expected {size.min} <= {size.name}"
            + (f" <= {size.max}" if value > size.max else "")
            + (f", a multiple of {size.multiple}" if size.multiple > 1 else "")
        )


def inputs_of(texts: tuple[str, ...]) -> dict[str, Any]:
    import numpy

    found: dict[str, Any] = {}
    for name, path in pairs(texts, "--input"):
        try:
            found[name] = numpy.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            said = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "not a .npy file of numbers"
            raise UsageError(f"--input {name}={path}: {said}") from None
        if not isinstance(found[name], numpy.ndarray):  # an .npz archive
            raise UsageError(f"--input {name}={path}: not a .npy file of numbers")
    return found


def pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"{option} {text}: expected PORT=FILE.npy")
        found.append((name, path))
    return found


def print_result(result: Result) -> None:
    sizes = " ".join(f"{k}={v}" for k, v in result.sizes.items())
    head = f"{result.composite:<14} {result.runtime:<10} {sizes:<28}"
    if not result.outputs:
        click.echo(f"{head} {result.status.upper()}: {result.detail}")
        return
    for row in result.outputs:
        verdict = "pass" if row.ok else "MISMATCH"
        line = f"{head} {row.name} {row.dtype}  error {row.max_abs_error:.3g} ({row.max_bound_ratio:.3g} of the bound)  {verdict}"
        if row.ill_conditioned:
            line += f"  ({row.ill_conditioned} of {row.points} points ill-conditioned, not judged)"
        click.echo(line)
    if result.opinion:
        click.echo(f"  the second opinion differs: {result.opinion}")
    if result.times:
        median = statistics.median(result.times)
        click.echo(
            f"  median {median * 1e6:.1f} µs, min {min(result.times) * 1e6:.1f} µs, {result.flops / median / 1e9:.1f} GFLOP/s, "
            f"{result.bytes / median / 1e9:.1f} GB/s, {result.kernels} kernel{'s' if result.kernels != 1 else ''}"
        )
