"""The child process of a test run: loads a library, calls it, times it.

Run as `python -m luminal.search.worker PARENT'S_ID`: one JSON job a line on standard input, one JSON answer a line on standard output.  A kernel that crashes or hangs takes
only this process with it, and the process ends with its parent.  Arrays travel as flat .npy files (bytes in memory order) in the job's folder; outputs are written
back there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..ir.program import Program


_loaded: dict[str, tuple[Program, Any]] = {}  # the last library, for jobs that follow on it


def load(job: dict[str, Any]) -> tuple[Program, Any]:
    """The program of a job and its library."""
    from .. import runtimes
    from ..ir import text
    from ..ir.program import Program
    from ..runtimes.registry import load as load_library

    key = json.dumps([job[k] for k in ("runtime", "target", "config", "portable", "program", "library", "prefix")])
    if key not in _loaded:
        runtime = runtimes.find(job["runtime"])
        target = runtime.target(job["target"], job["config"], job["portable"])
        program = text.read(Path(job["program"]).read_text(), job["program"])
        assert isinstance(program, Program)
        _loaded.clear()
        _loaded[key] = program, load_library(runtime, Path(job["library"]), program, target, job["prefix"])
    return _loaded[key]


def memory(program: Program, job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a call is given: the flat array of each port that has a file, and all ports as the library takes them.

    A port without a file has no use in this call: it is given memory that is never touched."""
    import numpy

    from ..ir.dtypes import numpy_dtype
    from ..ir.layout import as_array

    folder, sizes = Path(job["folder"]), job["sizes"]
    flat: dict[str, Any] = {}
    buffers: dict[str, Any] = {name: complex(*value) if isinstance(value, list) else value for name, value in job["scalars"].items()}
    for port in program.ports:
        if port.role == "scalar":
            buffers.setdefault(port.name, 0)
            continue
        file = folder / f"{port.name}.npy"
        if file.exists():
            flat[port.name] = numpy.load(file).view(numpy_dtype(port.dtype))
            buffers[port.name] = as_array(port, sizes, flat[port.name])
        else:
            buffers[port.name] = numpy.zeros(1, numpy_dtype(port.dtype))
    return flat, buffers


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Load, call once, write the outputs, then time `runs` calls (none where the call gave an error code)."""
    import numpy

    program, library = load(job)
    folder, sizes = Path(job["folder"]), job["sizes"]
    flat, buffers = memory(program, job)
    code = library.call(buffers, sizes)
    if code:
        return {"code": code}
    for port in program.ports:
        if port.role in ("out", "inout") and port.name in flat:
            numpy.save(folder / f"{port.name}.out.npy", flat[port.name].view(numpy.uint8))
    return {"code": 0, "times": library.time(buffers, sizes, job["runs"]) if job["runs"] else []}


def contest(job: dict[str, Any]) -> dict[str, Any]:
    """Time the same call at several bindings of the sizes in alternating blocks (one of them says which of several kernels runs): the minima of the first, then those
    of the second, …  In-place arrays are brought back before each block."""
    from .bench.blocks import Contender, Method, compare, minima

    program, library = load(job)
    flat, buffers = memory(program, job)
    changed = {p.name: flat[p.name].copy() for p in program.ports if p.role in ("out", "inout") and p.name in flat}

    def reset() -> None:
        for name, original in changed.items():
            flat[name][...] = original

    calls = {str(k): Contender(library.bind(buffers, sizes), reset=reset) for k, sizes in enumerate(job["contest"])}
    found = minima(compare(calls, Method(**job["method"])))
    return {"code": 0, "times": [seconds for each in found.values() for seconds in each]}


def answer(line: str) -> dict[str, Any]:
    """What goes back for one job: a code and times, or what kept the kernel from being run."""
    from ..ir.errors import LuminalError

    try:
        job = json.loads(line)
        return contest(job) if "contest" in job else work(job)
    except (LuminalError, OSError, MemoryError) as error:
        return {"failed": str(error) or type(error).__name__}


def end_with_parent(parent: int) -> None:
    """A kernel that hangs must not outlive a parent that was killed.  Linux only: elsewhere the worker ends when it next reads a job."""
    if sys.platform == "linux":
        import ctypes
        import signal

        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before we asked
            sys.exit(1)


def main() -> None:
    end_with_parent(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    for line in sys.stdin:
        answers.write(json.dumps(answer(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
