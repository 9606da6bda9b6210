"""The C compiler without optimising: -O3 takes it up to twenty times as long as our passes take, where it is those that are tested."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def plain(level: str = "-O0") -> list[tuple[type, str, Any]]:
    """Methods of drivers (their class and name), each with what takes its place: C is compiled at this level."""
    from luminal.runtimes.clang.driver import Driver
    from luminal.runtimes.cuda.driver import Driver as Cuda

    flags, commands = Driver.flags, Cuda._host_commands

    def plain_flags(self: Driver, compiler: Any, target: Any) -> tuple[str, ...]:
        return tuple(level if f in ("-O1", "-O3") else f for f in flags(self, compiler, target) if f not in ("-g", "-g1"))

    def plain_commands(self: Cuda, target: Any) -> list[list[str]]:
        return [[level if word == "-O2" else word for word in command if word != "-g"] for command in commands(self, target)]

    return [(Driver, "flags", plain_flags), (Cuda, "_host_commands", plain_commands)]


def plain_compiler(folder: Path, command: str) -> str:
    """A command that compiles as another does, and does not optimise: for processes of their own, as $CC."""
    place = folder / "plain-cc"
    place.write_text(f'#!/bin/sh\nexec {command} "$@" -O0 -g0\n')
    place.chmod(0o755)
    return str(place)


def printed(code: str, threads: Iterable[int]) -> list[str]:
    """What a program prints, compiled plainly, for each number of threads: a process of its own, for OpenMP reads it once."""
    code = "from plain import plain\nfor owner, name, method in plain():\n    setattr(owner, name, method)\n" + code
    path = os.pathsep.join([str(Path(__file__).parent), *(p for p in sys.path if p)])
    return [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(n)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in threads
    ]


__all__ = ["plain", "plain_compiler", "printed"]
