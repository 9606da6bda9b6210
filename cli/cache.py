"""`luminal cache`: what the compile cache holds, and emptying it."""

from __future__ import annotations

import click

from .answer import answer


@click.group("cache")
def cache() -> None:
    """The compile cache: built libraries, named by everything that decides their bytes; and what else would be found out again.

    It lies in the user's cache folder ($XDG_CACHE_HOME/luminal where that is set); emptying it costs time and nothing else.

    \b
    Examples:
      luminal cache info
      luminal cache clear
    """


@cache.command("info")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def info(as_json: bool) -> int:
    """Where it is and how much it holds.

    \b
    Example:
      luminal cache info
    """
    from ..search.contents import contents

    found = contents()
    if as_json:
        click.echo(answer(folder=str(found.folder), products=found.products, notes=found.notes, bytes=found.bytes, unfinished=found.unfinished))
    else:
        click.echo(
            f"{found.folder}: {found.products} product{'s' * (found.products != 1)}, {found.notes} note{'s' * (found.notes != 1)}, {found.bytes / 1e6:.1f} MB"
        )
        if found.unfinished:
            click.echo(f"{found.unfinished} unfinished: being made now, or left by a process that was killed")
    return 0


@cache.command("clear")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def clear(as_json: bool) -> int:
    """Remove everything that no process is making at the moment.

    \b
    Example:
      luminal cache clear
    """
    from ..search.contents import clear

    removed, busy = clear()
    if as_json:
        click.echo(answer(removed=removed, in_use=busy))
    else:
        click.echo(f"removed {removed} product{'s' * (removed != 1)}" + (f"; {busy} in use" if busy else ""))
    return 0
