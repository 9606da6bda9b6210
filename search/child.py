"""The parent's side of a test run: a spawned worker with a time limit, replaced when it dies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..ir.errors import CompilerBug, ToolError
from ..runtimes.limits import bound


@dataclass(frozen=True)
class Outcome:
    """What became of one job."""

    status: str  # done | code | crash | timeout
    detail: str = ""
    code: int = 0
    times: list[float] = field(default_factory=list)


class Child:
    """A worker process, started when first needed; `close` (or leaving the `with`) ends it."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.environment = dict(environment or {})  # what the runtime wants there, beside our own
        self.process: subprocess.Popen[bytes] | None = None
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker; a file, because a pipe that nobody reads would stop a talkative kernel

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.stderr.close()

    def run(self, job: dict[str, Any], timeout: float) -> Outcome:
        """One job; `timeout` in seconds covers everything, the start of the process included."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        deadline = time.monotonic() + timeout
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self.close()
                return Outcome("timeout", f"no answer within {timeout:g} s")
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                return self._died()
            line += chunk
        answer = json.loads(line)
        if "failed" in answer:
            raise ToolError(f"the kernel could not be run: {answer['failed']}")
        if answer["code"]:
            return Outcome("code", code=answer["code"])
        return Outcome("done", times=answer["times"])

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            # a new session, so that the time limit ends the worker and whatever it started
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, start_new_session=True,
                env={**os.environ, **self.environment, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )  # fmt: skip
            bound(self.process)
        return self.process

    def _died(self) -> Outcome:
        process = self.process
        assert process is not None
        status = process.wait()
        self.stderr.seek(0)
        said = self.stderr.read().decode(errors="replace").strip()
        self.close()
        if status < 0:
            return Outcome("crash", signal.Signals(-status).name)
        if status == 1 and "Traceback" in said:
            if "MemoryError" in said or "[Errno 12]" in said:
                return Outcome("crash", "out of memory")
            raise CompilerBug("worker", said.splitlines()[-1])
        return Outcome("crash", f"exit status {status}" + (f": {telling_line(said)}" if said else ""))

    def close(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.stderr.seek(0)
        self.stderr.truncate()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self.process = None


def telling_line(said: str) -> str:
    """The line that names the error (a sanitizer's, say), else the last one."""
    lines = said.splitlines()
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
