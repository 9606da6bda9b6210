"""`luminal show`: what a composite becomes: kernels, buffers, bytes, flops and which of them bounds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..compiler import Compilation, Settings, compilations
from ..ir.errors import Diagnostic, UsageError
from ..ir.layout import dense, strides_of
from . import diagnostics
from .answer import answer
from .parse import parse_config, parse_pairs, split_pairs
from .streams import standard_input
from .testing import admitted

if TYPE_CHECKING:
    from ..search.account import Account, KernelAccount


FORMS = {".txt": "text", ".dot": "dot", ".json": "json"}


@click.command("show")
@click.argument("input_", metavar="INPUT")
@click.option("-r", "--runtime", default="clang", metavar="NAME|DIR", help="clang, cuda, reference, an installed one, or a folder.")
@click.option("--target", metavar="NAME", help="Which machine of the runtime.")
@click.option("-c", "--config", multiple=True, metavar="KEY=VALUE,...", help="The runtime's own settings.")
@click.option("-O", "level", type=click.IntRange(0, 2), default=2, show_default=True, help="0 plain, 1 fused, 2 scheduled.")
@click.option("-D", "defines", multiple=True, metavar="M=64", help="Fix a size, or set a parameter, at compile time.")
@click.option("--dtype", "dtypes", multiple=True, metavar="T=f16", help="Bind a type variable.")
@click.option("--entry", metavar="NAME|all", help="Which composite of a file.")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where called composites are looked up.")
@click.option("--sizes", metavar='"M=100, N=100"', help="Put these numbers into the formulas; else nominal ones.")
@click.option("--format", "form", type=click.Choice(["text", "dot"]), help="dot is for Graphviz.  Default: what -o's suffix says, else text.")
@click.option("-o", "output", metavar="PATH", help="A .txt, .dot or .json file.")
@click.option("--why", is_flag=True, help="The reasons for what the compiler decided.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def show(input_: str, **options: Any) -> int:
    """Show the kernels of a composite: what each reads and writes, how many bytes and operations, and what bounds it.

    Bytes are what must be moved (each element that a kernel touches, once); the estimate of the time is a model's, nothing is measured.

    \b
    Examples:
      luminal show samples/attention.toml --sizes "B=1, H=8, N=512, M=512, D=64, E=64"
      luminal show samples/softmax.toml --why
      luminal show samples/mlp.toml --format dot | dot -Tsvg > mlp.svg
    """
    from ..search.account import account

    form = form_of(options["form"], options["output"], options["as_json"])
    as_json = form == "json"
    settings = Settings(
        runtime=options["runtime"], target=options["target"], config=parse_config(options["config"]), O=options["level"], include=options["include"],
        sizes=parse_pairs(options["defines"], "-D", int), dtype=parse_pairs(options["dtypes"], "--dtype", str), entry=options["entry"],
    )  # fmt: skip
    pages: list[str] = []
    warnings: list[Diagnostic] = []
    objects: list[dict[str, Any]] = []
    for compilation in compilations(input_, settings, standard_input):
        found = account(compilation.run(stop_after="join"), compilation.program, sizes_of(compilation, options["sizes"]))
        why = {k.name: k.notes for k in compilation.module.kernels} if options["why"] else {}
        objects.append(as_object(found, compilation, why))
        pages.append(dot(found) if form == "dot" else page(found, compilation, why, options["sizes"] is None))
        warnings += compilation.warnings
        if not as_json:
            diagnostics.show(compilation.warnings, diagnostics.wants_color("auto"))
    text = "\n\n".join(pages)
    if as_json:  # of one composite its facts stand at the top as well
        text = answer(**(objects[0] if len(objects) == 1 else {}), results=objects, diagnostics=diagnostics.as_objects(warnings))
    if options["output"] is None:
        click.echo(text)
    else:
        from ..artifacts.write import write_text

        write_text(Path(options["output"]), text + "\n")
    return 0


def form_of(form: str | None, output: str | None, as_json: bool) -> str:
    """text, dot or json: what is asked for, or what the suffix of the file says."""
    suffix = Path(output).suffix if output else ""
    if suffix not in ("", *FORMS):
        raise UsageError(f"-o {output}: {', '.join(FORMS)}")
    asked, said = ("json", "--json") if as_json else (form, f"--format {form}")
    if asked and suffix and asked != FORMS[suffix]:
        raise UsageError(f"{said} and -o {output} contradict")
    return asked or FORMS.get(suffix, "text")


def sizes_of(compilation: Compilation, text: str | None) -> dict[str, int]:
    """The values of the free sizes that the formulas are evaluated at."""
    from ..passes.costs import nominal

    program = compilation.program
    free = program.size_info()
    strides = strides_of(program.ports)
    if text is None:
        return dense(program.ports, {n: v for n, v in nominal(free).items() if n not in strides})
    given: dict[str, int] = {}
    for name, value in split_pairs(text, "--sizes"):
        if name not in free:
            raise UsageError(f"--sizes: {program.name} has no free size {name}; it has {', '.join(free) or 'none'}")
        try:
            given[name] = int(value)
        except ValueError:
            raise UsageError(f"--sizes {name}={value}: expected an integer") from None
    missing = [name for name in free if name not in given and name not in strides]
    if missing:
        raise UsageError(f"--sizes: {program.name} also needs {', '.join(missing)}")
    given = dense(program.ports, given)
    for size in program.sizes:
        admitted(size, given[size.name], "--sizes")
    return given


# ---- text


def page(found: Account, compilation: Compilation, why: dict[str, tuple[str, ...]], nominal: bool) -> str:
    at = " ".join(f"{k}={v}" for k, v in found.sizes.items())
    lines = [f"{found.name}, {compilation.runtime.name} for {compilation.target.describe}"]
    if at:
        lines.append(f"at {at}" + (" (nominal; --sizes gives others)" if nominal else ""))
    lines += ["", *(f"{b.role:<7}{b.name:<12}{b.type:<28}{amount(b.value, 'B'):>10}   {b.formula}" for b in found.buffers)]
    for k in found.kernels:
        lines += ["", *kernel_lines(k), *(f"  why    {note}" for note in why.get(k.work.kernel, ()))]
    lines += ["", f"workspace  {amount(found.workspace_value, 'B')}" + (f"   {found.workspace}" if found.workspace != "0" else "")]
    lines.append(f"peak       {amount(found.peak_value, 'B')} beside the ports, in one thread")
    total = f"total      {amount(found.bytes_value, 'B')} moved, {amount(found.flops_value, 'flop')}"
    lines.append(total + (f"; the bottleneck is {found.bottleneck}" if len(found.kernels) > 1 else ""))
    return "\n".join(lines)


def kernel_lines(k: KernelAccount) -> list[str]:
    at_least = " at least" if k.work.at_least else ""
    return [
        f"{k.work.kernel}: {k.share:.0%} of the estimated time, bound by {k.bound}",
        f"  reads  {' '.join(k.work.reads) or 'nothing'}; writes {' '.join(k.work.writes) or 'nothing'}",
        f"  bytes  {amount(k.bytes_value, 'B'):>12}{at_least}   {k.bytes}",
        f"  flops  {amount(k.flops_value, 'flop'):>12}{at_least}   {k.flops}",
        *(
            f"  scratch{amount(size, 'B'):>12} {each}   {formula}"
            for size, formula, each in zip(k.scratch_values, k.scratch, ("", "a thread"), strict=True)
            if formula != "0"
        ),
    ]


def amount(value: int, unit: str) -> str:
    """With a prefix: 1.05 MB."""
    scaled = float(value)
    for prefix in ("", "k", "M", "G", "T", "P"):
        if scaled < 1000 or prefix == "P":
            return f"{value} {unit}" if not prefix else f"{scaled:.3g} {prefix}{unit}"
        scaled /= 1000
    return f"{value} {unit}"


# ---- dot


def dot(found: Account) -> str:
    """The graph of kernels and buffers for Graphviz; the edges say how much is moved."""
    lines = [f"digraph {quoted(found.name)} {{", "  rankdir=LR; node [fontname=sans]; edge [fontname=sans];"]
    for b in found.buffers:
        style = "shape=box,style=rounded" if b.role != "temp" else "shape=box,style=dashed"
        lines.append(f"  {quoted(b.name)} [{style},label={quoted(f'{b.name}', b.type, amount(b.value, 'B'))}];")
    for k in found.kernels:
        label = quoted(k.work.kernel, amount(k.flops_value, "flop"), f"{k.share:.0%}, {k.bound}")
        lines.append(f"  {quoted(k.work.kernel)} [shape=box,style=filled,label={label}];")
        for name, e in k.reads.items():
            lines.append(f"  {quoted(name)} -> {quoted(k.work.kernel)} [label={quoted(amount(e, 'B'))}];")
        for name, e in k.writes.items():
            lines.append(f"  {quoted(k.work.kernel)} -> {quoted(name)} [label={quoted(amount(e, 'B'))}];")
    return "\n".join([*lines, "}"])


def quoted(*lines: str) -> str:
    inner = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return f'"{inner}"'


# ---- JSON


def as_object(found: Account, compilation: Compilation, why: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    return {
        "composite": found.name, "runtime": compilation.runtime.name, "target": compilation.target.describe, "sizes": found.sizes,
        "buffers": [{"name": b.name, "role": b.role, "type": b.type, "bytes": b.value, "formula": b.formula} for b in found.buffers],
        "kernels": [
            {
                "name": k.work.kernel, "reads": k.reads, "writes": k.writes, "bytes": k.bytes_value, "bytes_formula": k.bytes, "flops": k.flops_value,
                "flops_formula": k.flops, "at_least": k.work.at_least,
                "scratch": k.scratch_values[0], "scratch_formula": k.scratch[0],
                "scratch_a_thread": k.scratch_values[1], "scratch_a_thread_formula": k.scratch[1], "share": round(k.share, 4), "bound": k.bound,
                **({"why": list(why[k.work.kernel])} if why else {}),
            }
            for k in found.kernels
        ],
        "bottleneck": found.bottleneck, "bytes": found.bytes_value, "flops": found.flops_value,
        "workspace": found.workspace_value, "workspace_formula": found.workspace, "peak": found.peak_value,
    }  # fmt: skip
