"""Object files of many sources by one process of clang.

Starting clang takes longer than compiling a small kernel: its libraries are a hundred megabytes. The driver runs its own compiler (`-cc1`) once for each source; that one takes as many sources as it is
given, each a translation unit of its own, and the objects are the same bytes. Which command that is, the driver says (`-###`).
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...ir.errors import ToolError
from .compiler import Compiler, run

SOURCE, OBJECT = "kernel.c", "kernel.o"


def objects(compiler: Compiler, flags: tuple[str, ...], folders: Sequence[Path], place: Path, timeout: float | None, log: list[str]) -> None:
    """From SOURCE in each of the folders inside `place` an OBJECT beside it.  Those that are not there afterwards nobody has made: after a source with a mistake clang makes no other."""
    command = _command(compiler, flags)
    if command is None or len(folders) < 2:
        return
    try:
        run(
            [*command, *(str(folder.relative_to(place) / SOURCE) for folder in folders)],
            None if timeout is None else timeout * len(folders),
            log,
            place,
        )
    except ToolError:  # whose mistake that was is found out one by one
        return


@cache
def _command(compiler: Compiler, flags: tuple[str, ...]) -> list[str] | None:
    """What the driver would run, without the source and the object; None for a compiler of another kind."""
    if compiler.family != "clang":
        return None
    with tempfile.TemporaryDirectory(prefix="luminal-") as folder:
        Path(folder, SOURCE).touch()  # it looks for what it would read
        try:
            said = run([*compiler.command, "-###", *flags, SOURCE, "-c", "-o", OBJECT], 60, [], Path(folder))
        except ToolError:
            return None
    lines = [shlex.split(line) for line in said.split("\n") if '"-cc1"' in line]
    if len(lines) != 1 or lines[0][-1] != SOURCE or lines[0].count("-o") != 1:
        return None
    words = lines[0][:-1]
    at = words.index("-o")
    return [*words[:at], *words[at + 2 :]] if words[at + 1] == OBJECT else None
