"""`luminal doctor`: what is installed, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

import click

from .. import __version__
from ..runtimes.tools import Finding, findings, pip
from .answer import answer

# what the package itself imports; the extras are among the runtimes' tools
PACKAGES = ("numpy", "ml_dtypes", "click", "lark", "jinja2", "tomli", "platformdirs", "filelock", "tree-sitter", "tree-sitter-toml")
_MARKS = {"present": "ok", "missing": "--", "broken": "!!"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def doctor(as_json: bool) -> int:
    """Say what is installed, what is missing, and the exact command that mends it.  Status 4 where the main job cannot work.

    \b
    Examples:
      luminal doctor
      luminal doctor --json
    """
    found = [*of_python(), *findings(), of_cache()]
    ill = [f for f in found if f.needed and f.state != "present"]
    if as_json:
        click.echo(answer(ok=not ill, version=__version__, findings=[asdict(f) for f in found]))
        return 4 if ill else 0
    width = max(len(f.name) for f in found)
    for f in found:
        click.echo(f"{_MARKS[f.state]}  {f.name:<{width}}  {f.detail}")
        if f.mend:
            click.echo(f"    {'':<{width}}  {'mend' if f.state == 'broken' or f.needed else 'if wanted'}: {f.mend}")
    click.echo(f"\n{'everything that is needed is here' if not ill else 'needed: ' + ', '.join(f.name for f in ill)}")
    return 4 if ill else 0


def of_python() -> Iterator[Finding]:
    """The interpreter and the packages that luminal imports."""
    yield Finding("luminal", "present", f"{__version__}, {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}", needed=True)
    yield Finding("Python", "present", f"{platform.python_version()}, {sys.executable}", needed=True)
    for name in PACKAGES:
        try:
            yield Finding(name, "present", version(name), needed=True)
        except PackageNotFoundError:
            yield Finding(name, "missing", "luminal imports it", pip(name), needed=True)


def of_cache() -> Finding:
    """Whether what is built can be kept."""
    from ..search.contents import contents

    found = contents()
    nearest = next(p for p in (found.folder, *found.folder.parents) if p.exists())
    size = f"{found.folder}: {found.products} products, {found.bytes / 1e6:.1f} MB"
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Finding("cache", "present", size)
    return Finding("cache", "broken", f"{found.folder}: {nearest} cannot be written, so everything is built anew each time", f"chmod u+rwx {nearest}")
