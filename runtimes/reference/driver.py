"""The reference runtime's driver: the source is the program itself, the library the program interpreted.

It runs what the passes made, not the graph, so that `--runtime reference` tests every pass with no compiler: each operator rounds to its dtype once, and
vectors are NumPy arrays.  `--config CHECK=1` makes it a sanitizer.  There is no C function, hence no header to speak of and no shared library.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...ir.errors import ToolMissing, UsageError
from ...ir.primops import OPS
from ...ir.program import Program
from ...ir.target import Target
from .. import ConfigKey, Description, Rendered
from ..config import resolve_config


class Driver:
    """See `luminal.runtimes.Runtime`."""

    source_suffix = ".program"
    library_kind = ("shared", ".so")  # never made: `build` says why

    def __init__(self, description: Description, folders: tuple[Path, ...]) -> None:
        self.description, self.folders = description, folders
        self.name, self.folder = description.name, description.folder

    def run_kind(self, device: str | None) -> tuple[str, str]:
        """What a run here needs: the text of the program."""
        if device not in (None, "host"):
            raise UsageError(f"--device {device}: the runtime {self.name} runs on the host")
        return "program", ".program"

    def config_keys(self) -> tuple[ConfigKey, ...]:
        return self.description.config

    def target(self, name: str | None, config: dict[str, Any], portable: bool) -> Target:
        """The one machine there is: `interpreter`.  Every operator of the table is native."""
        if name not in (None, "native", "interpreter"):
            raise UsageError(f"unknown target `{name}`; the runtime {self.name} knows interpreter")
        options = resolve_config(self.config_keys(), config, self.name)
        if options["VECTOR"] < 0 or options["VECTOR"] & (options["VECTOR"] - 1):
            raise UsageError(f"--config VECTOR: expected 0 or a power of two, found {options['VECTOR']}")
        if options["THREADS"] < 1:
            raise UsageError(f"--config THREADS: expected 1 or more, found {options['THREADS']}")
        table = self.description.table["target"]
        return Target(
            runtime=self.name,
            name="interpreter",
            describe=f"interpreter, vectors of {options['VECTOR']} bytes",
            native=frozenset(OPS),
            dtypes=frozenset(table["dtypes"]),
            arithmetic=frozenset(table["arithmetic"]),
            vector_bytes=options["VECTOR"],
            threads=bool(table["threads"]),
            interpreted=bool(table["interpreted"]),
            options=options,
        )

    def render(self, program: Program, target: Target, prefix: str) -> Rendered:
        """The program's text; the header declares nothing and says so."""
        from ...ir.text import show

        header = f"/* {program.name}: compiled for the interpreter (--runtime {self.name}); there is no C function to declare. */\n"
        return Rendered(show(program), header, self.source_suffix)

    def build(self, rendered: Rendered, target: Target, kind: str, path: Path, timeout: float | None, log: list[str]) -> None:
        """Write the program's text to `path`, whole or not at all.  ToolError for whatever else is asked for."""
        if kind != "program":
            raise ToolMissing(f"the runtime {self.name} has no compiler: it makes no {kind} file")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n", dir=path.parent, prefix=".luminal-", delete=False) as file:
            file.write(rendered.source)
        os.replace(file.name, path)

    def load(self, path: Path, program: Program, target: Target, prefix: str) -> Library:
        return Library(program, target)

    def environment(self, target: Target) -> dict[str, str]:
        return {}

    def tools(self, target: Target, device: str | None) -> str:
        import numpy

        return f"no compiler: the program interpreted on NumPy {numpy.__version__}"

    def identity(self, target: Target) -> str:
        """The text depends on nothing but itself."""
        return self.name


class Library:
    """A program that is interpreted.  Arrays must have the port's dtype, shape and layout: nothing is converted here."""

    function = None  # there is no C function
    extra: tuple[Any, ...] = ()

    def __init__(self, program: Program, target: Target) -> None:
        from ...ir.interpret.program import compiled

        self.program, self.options = program, target.options
        self._run = compiled(program, check=bool(self.options["CHECK"]))
        self.picks: list[tuple[str, Callable[[Any], Any]]] = [(p.name, lambda value: value) for p in program.ports]

    def call(self, buffers: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        """Run once; a null pointer is None.  Races, undefined contents and accesses outside raise MeaningFault under CHECK."""
        from ...ir.interpret.team import Support

        flat = {p.name: buffers[p.name] if p.role == "scalar" else _flat(buffers[p.name]) for p in self.program.ports}
        return self._run(flat, sizes, Support(bool(self.options["CHECK"]), int(self.options["SEED"]), int(self.options["THREADS"])))

    def bind(self, buffers: Mapping[str, Any], sizes: Mapping[str, int]) -> Callable[[], int]:
        """The call with its arguments fixed."""
        return partial(self.call, dict(buffers), dict(sizes))

    def time(self, buffers: Mapping[str, Any], sizes: Mapping[str, int], runs: int) -> list[float]:
        """Seconds of each call: of the interpreter, which says nothing of compiled code."""
        seconds = []
        for _ in range(runs):
            began = time.perf_counter()
            self.call(buffers, sizes)
            seconds.append(time.perf_counter() - began)
        return seconds


def _flat(array: Any) -> Any:
    """The memory of an array from its first element to its last, in memory order."""
    if array is None or array.ndim == 0:
        return None if array is None else array.reshape(1)
    import numpy

    from ...ir.layout import strided

    if array.size == 0:
        return numpy.zeros(0, array.dtype)
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize
    return strided(array, (span,), (1,))
