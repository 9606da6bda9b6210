"""The child process of a test run: loads a library, calls it, times it.

Run as `python -m luminal.search.worker`: one JSON job a line on standard input, one JSON answer a line on standard output.  A kernel that crashes or hangs takes
only this process with it.  Arrays travel as flat .npy files (bytes in memory order) in the job's folder; outputs are written back there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Load, call once, write the outputs, then time `runs` calls (none where the call gave an error code)."""
    import numpy

    from .. import runtimes
    from ..ir import text
    from ..ir.dtypes import numpy_dtype
    from ..ir.layout import as_array

    runtime = runtimes.find(job["runtime"])
    target = runtime.target(job["target"], job["config"], job["portable"])
    program = text.read(Path(job["program"]).read_text(), job["program"])
    library = runtime.load(Path(job["library"]), program, target, job["prefix"])
    folder, sizes = Path(job["folder"]), job["sizes"]
    flat: dict[str, numpy.ndarray] = {}
    buffers: dict[str, Any] = dict(job["scalars"])
    for port in program.ports:
        if port.role != "scalar":
            flat[port.name] = numpy.load(folder / f"{port.name}.npy").view(numpy_dtype(port.dtype))
            buffers[port.name] = as_array(port, sizes, flat[port.name])
    code = library.call(buffers, sizes)
    if code:
        return {"code": code}
    for port in program.ports:
        if port.role in ("out", "inout"):
            numpy.save(folder / f"{port.name}.out.npy", flat[port.name].view(numpy.uint8))
    return {"code": 0, "times": library.time(buffers, sizes, job["runs"]) if job["runs"] else []}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    for line in sys.stdin:
        answers.write(json.dumps(work(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
