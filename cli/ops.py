"""`luminal ops`: the standard library, listed or one composite of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..compiler import OPS_FOLDER, Compilation, Settings, entries, open_input
from ..ir.errors import UsageError
from .answer import answer
from .streams import standard_input

if TYPE_CHECKING:
    from ..dsl.ast import Composite, PortDecl
    from ..ir.graph import Graph


@click.command("ops")
@click.argument("name", required=False)
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where composites are looked up before the library.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def ops(name: str | None, include: tuple[str, ...], as_json: bool) -> int:
    """List the library of composites by family; or show one: its formula, its code, and the primops that it becomes.

    NAME may also be a file, or an operator of the language.

    \b
    Examples:
      luminal ops
      luminal ops softmax
    """
    if name is None:
        families = library()
        if as_json:
            listed = {family: {c.name: summary(c) for c in members} for family, members in families.items()}
            click.echo(
                answer(**listed, results=[{"name": name, "family": f, "summary": said} for f, by in listed.items() for name, said in by.items()])
            )
        else:
            click.echo("\n\n".join("\n".join([family, *map(line, members)]) for family, members in families.items()))
        return 0
    settings = Settings(runtime="reference", include=include)
    try:
        unit = open_input(name, settings, standard_input)
    except UsageError:
        signature = operator_signature(name)
        if signature is None:
            raise
        click.echo(
            answer(name=name, signature=signature, results=[{"name": name, "signature": signature}])
            if as_json
            else f"{signature}\n\nAn operator of the language."
        )
        return 0
    for composite in entries(unit, settings):
        if composite is None:
            raise UsageError(f"{name}: an intermediate file holds no composite")
        raised = Compilation(unit, composite, settings).run(stop_after="raise_loops")
        if as_json:
            facts = described(composite, raised)
            click.echo(answer(**facts, results=[facts]))
        else:
            click.echo(page(composite, raised))
    return 0


def library() -> dict[str, list[Composite]]:
    """Family (a folder of the library) -> its composites, both in alphabetical order; of a file with several the last, which the others serve."""
    from .. import dsl

    found: dict[str, list[Composite]] = {}
    for path in sorted(OPS_FOLDER.glob("*/*.toml")):
        found.setdefault(path.parent.name, []).append(dsl.read_file(path)[-1])
    return found


def operator_signature(name: str) -> str | None:
    """Of a tensor operator of the language."""
    from ..dsl.operators import TABLE

    operator = TABLE.get(name.lower().replace("_", "-"))
    return None if operator is None else operator.signature


def summary(composite: Composite) -> str:
    return composite.documentation.strip().split("\n")[0]


def line(composite: Composite) -> str:
    text = f"  {composite.name:<16} {summary(composite)}"
    return text if len(text) <= 118 else f"{text[:117]}…"


def described(composite: Composite, raised: Graph) -> dict[str, Any]:
    """What is known of a composite; `raised` is its graph with the loops that are tensor algebra raised."""
    from ..ir.census import operators
    from ..search.conformance.shipped import standing

    path = Path(composite.file)
    return {
        "name": composite.name,
        "family": path.parent.name if OPS_FOLDER in path.parents else None,
        "signature": composite.signature,
        "inputs": [port_text(p) for p in composite.inputs],
        "outputs": [port_text(composite.port(n)) for n in composite.outputs],
        "parameters": {p.name: {"type": p.type, "default": p.default, "required": p.required} for p in composite.parameters},
        "documentation": composite.documentation.strip(),
        "code": composite.source_text,
        "operators": operators(raised),
        "primops": operators(raised, native=()),
        "test_sizes": list(composite.test.sizes),
        "test_instances": list(composite.test.instances),
        "runtimes": standing(composite.name) if OPS_FOLDER in path.parents else {},
    }


def port_text(port: PortDecl) -> str:
    """As it was written."""
    return port.place.text.value[port.place.start : port.place.end]


def counts(found: dict[str, int]) -> str:
    return "  ".join(f"{name} {count}" for name, count in found.items()) or "none: it is a view"


def runtimes_text(found: dict[str, dict[str, list[str]]]) -> str:
    """What the shipped reports say, a line a runtime: dtypes that pass, then what does not, by its status."""
    lines = ["runtimes (from their reports; `luminal test-runtime` makes one here)"]
    for runtime, by in found.items():
        words = ["passes " + " ".join("as declared" if d == "own" else d for d in by["passes"])] if "passes" in by else []
        words += [f"{status}: {' '.join(dtypes)}" for status, dtypes in by.items() if status != "passes"]
        lines.append(f"  {runtime:<10} {'; '.join(words)}")
    return "\n".join(lines) if found else ""


def page(composite: Composite, raised: Graph) -> str:
    facts = described(composite, raised)
    sizes = ["  " + " ".join(f"{k}={v}" for k, v in binding.items()) for binding in (*facts["test_sizes"], *facts["test_instances"])]
    parts = [
        facts["signature"], facts["documentation"], facts["code"],
        f"operators\n  {counts(facts['operators'])}", f"primops\n  {counts(facts['primops'])}",
        "`nest` stands for loops that are no tensor algebra and stay loops; `luminal show --why` says why" if "nest" in facts["operators"] else "",
        runtimes_text(facts["runtimes"]),
        *(["\n".join(["test sizes, and instances", *sizes])] if sizes else []),
    ]  # fmt: skip
    return "\n\n".join(p for p in parts if p)
