"""`luminal new`: a runtime, a composite or a library to start from; what it writes works as it stands."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from string import Template

import click

from ..ir.errors import UsageError

TEMPLATES = Path(__file__).parent / "templates"
# what is asked for -> name of each file, from that of its template
KINDS = {
    "runtime": {
        "runtime.toml": "runtime.toml", "driver.py": "driver.py", "helpers.j2": "helpers/$name.j2", "test_runtime.py": "test_$name.py", "README.md": "README.md",
    },
    "composite": {"composite.toml": "$name.toml"},
    "library": {name: name for name in ("Makefile", "README.md", "cosine.toml", "normalize.toml", "example.c")},
}  # fmt: skip
NEXT = {"runtime": "luminal compile gemm --runtime ./$name --test", "composite": "luminal compile $name.toml --test", "library": "make -C $name test"}


@click.command("new")
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.argument("name")
def new(kind: str, name: str) -> int:
    """Write a runtime, a composite or a library to start from, into the current folder; nothing that is there is overwritten.

    A runtime is a folder that spells the primops for plain scalar C, commented as a tutorial; a composite is one commented file; a library is a folder of
    composites with a Makefile.

    \b
    Examples:
      luminal new runtime mine && luminal compile gemm --runtime ./mine --test
      luminal new composite scaled && luminal compile scaled.toml --test
      luminal new library vectors && make -C vectors test
    """
    pattern = r"[A-Za-z][A-Za-z0-9_-]*" if kind == "composite" else r"[A-Za-z][A-Za-z0-9_]*"
    if not re.fullmatch(pattern, name) or len(name) > 100:
        also = " and -" if kind == "composite" else ""
        raise UsageError(f"new {kind} {name}: a name is a letter, then letters, digits, _{also}")
    if kind == "composite":
        target = Path(f"{name}.toml")
        if target.exists():
            raise UsageError(f"{target} is there already")
        from ..artifacts.write import write_text

        write_text(target, filled(kind, "composite.toml", name))
    else:
        target = Path(name)
        write_folder(target, {filled_name(to, name): filled(kind, file, name) for file, to in KINDS[kind].items()})
    click.echo(f"wrote {target}; next: {filled_name(NEXT[kind], name)}")
    return 0


def filled(kind: str, file: str, name: str) -> str:
    return Template((TEMPLATES / kind / f"{file}.in").read_text(encoding="utf-8")).substitute(name=name)


def filled_name(text: str, name: str) -> str:
    return Template(text).substitute(name=name)


def write_folder(folder: Path, files: dict[str, str]) -> None:
    """All of it or nothing: it is made beside its place and renamed."""
    if folder.exists():
        raise UsageError(f"{folder} is there already")
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UsageError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    try:
        for name, text in files.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text, encoding="utf-8", newline="\n")
        mask = os.umask(0)
        os.umask(mask)
        work.chmod(0o777 & ~mask)
        work.rename(folder)
    except OSError as error:
        raise UsageError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
