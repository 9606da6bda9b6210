"""`luminal tuning`: the records that searches have left."""

from __future__ import annotations

from json import loads
from pathlib import Path

import click

from ..ir.errors import UsageError
from .answer import answer


@click.group("tuning")
def tuning() -> None:
    """Tuning records: what `compile -O3` and `luminal tune` have found, by composite, sizes, target and compiler.

    They lie in the user's cache folder, beside the compile cache.

    \b
    Examples:
      luminal tuning list
      luminal tuning export records.json
    """


@tuning.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def listed(as_json: bool) -> int:
    """One line a record.

    \b
    Example:
      luminal tuning list
    """
    from ..search.tuning.records import exported, records

    if as_json:
        found = loads(exported())
        click.echo(answer(**found, results=found["records"]))
        return 0
    for r in records():
        at = " ".join(f"{k}={v}" for k, v in r.sizes.items())
        gain = "default" if r.is_default else f"{r.ratio:.2f} ±{r.noise:.2f}"
        click.echo(f"{r.composite:<16} {at:<28} {gain:<12} {r.runtime} {r.target.split(' ')[0]}, {r.compiler}")
    return 0


@tuning.command("export")
@click.argument("file", metavar="FILE")
def export(file: str) -> int:
    """All records as one JSON file, for another machine of the same kind (- is standard output).

    \b
    Example:
      luminal tuning export records.json
    """
    from ..artifacts.write import write_text
    from ..search.tuning.records import exported, records

    if file == "-":
        click.echo(exported(), nl=False)
        return 0
    write_text(Path(file), exported())
    click.echo(f"wrote {file}: {len(records())} records")
    return 0


@tuning.command("import")
@click.argument("file", metavar="FILE")
def import_(file: str) -> int:
    """Add the records of an exported file; those of the same composite, sizes, target and compiler are replaced.

    \b
    Example:
      luminal tuning import records.json
    """
    from ..search.tuning.records import imported

    try:
        document = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error.strerror.lower() if isinstance(error, OSError) and error.strerror else 'not UTF-8 text'}") from None
    found = imported(document, file)
    click.echo(f"{len(found)} record{'s' * (len(found) != 1)}")
    return 0


@tuning.command("clear")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def clear(as_json: bool) -> int:
    """Remove every record.

    \b
    Example:
      luminal tuning clear
    """
    from ..search.tuning.records import clear

    removed = clear()
    click.echo(answer(removed=removed) if as_json else f"removed {removed} record{'s' * (removed != 1)}")
    return 0
