"""What Jinja's compiler makes of our own templates, made when luminal is installed: with an empty cache it is a third of the first compilation.

    python -m luminal.runtimes.prepare        into the folder of this installation, as Python modules (`templates.py` says which one is whose)

A template that was changed since is compiled when it is used, as one of anybody else's runtime is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from . import helpers, templates
from .render import environment

_HERE = Path(__file__).resolve().parent


def prepare(into: Path) -> None:
    """Everything anew, whole or not at all: nothing of what was there is left."""
    unfinished = into.with_name(f"{into.name}.making")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for description in sorted(_HERE.glob("*/runtime.toml")):
        for key, text in _compiled(description.parent):
            (unfinished / templates.module_of(key)).write_text(text, encoding="utf-8")
    shutil.rmtree(into, ignore_errors=True)
    unfinished.rename(into)


def _compiled(folder: Path) -> Iterator[tuple[str, str]]:
    """The key of each template of a runtime, and the module that it is: those that have names, and one for each helper."""
    jinja = environment((folder,))
    for file in sorted(folder.glob("*.j2")):
        source = file.read_text(encoding="utf-8")
        yield templates.named(file.name, source), jinja.compile(source, file.name, str(file), raw=True)
    for name in helpers.names((folder,)):
        part = helpers.part((folder,), name)
        assert part is not None
        yield part, jinja.compile(part, raw=True)


if __name__ == "__main__":
    prepare(templates.PREPARED)
