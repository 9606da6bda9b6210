"""What a C compiler says of itself, kept: to ask takes a tenth of a second and more, which would be most of a build that finds everything else in the cache.

An answer stands under the program as the file system tells of it (path, size, times, inode; for a clang also the libraries that it is made of), the question, and the
variables of the environment that a compiler heeds. What only passes the question on (a script, ccache, Apple's shim), or has arguments of its own, may say something else
tomorrow: it is asked each time. So is whoever did not find a file, for somebody may install it; and an answer that names a file counts while that is there.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..keep import keep, kept

ROOM = "probes"
SETTLED = 0.1  # seconds after which a file that is written again has another time
_ITSELF = re.compile(r"gcc|clang|nvcc")  # in the name of a program that answers for itself
_LIBRARIES = ("libclang-cpp", "libLLVM")
_HEEDED = (
    "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "SDKROOT",
    "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET", "LD_LIBRARY_PATH", "LD_RUN_PATH", "LD_PRELOAD", "SOURCE_DATE_EPOCH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN",
)  # fmt: skip


def answer(command: Sequence[str], question: str, ask: Callable[[list[str]], str], names_file: bool = False) -> str:
    """What `command question` prints, by `ask` (which takes the whole command) or as kept.  `names_file`: the answer is the path of a file, where there is one."""
    words = [*command, question]
    who = identity(command[0]) if len(command) == 1 else None
    if who is None:
        return ask(words)
    key = json.dumps([words, who, surroundings()])
    data = kept(ROOM, key)
    if data is not None and (not names_file or _is_there(data.decode())):
        return data.decode()
    said = ask(words)
    if not names_file or _is_there(said):
        keep(ROOM, key, said.encode())
    return said


def _is_there(said: str) -> bool:
    return os.path.isabs(said.strip()) and os.path.exists(said.strip())


def surroundings() -> str:
    """The variables of the environment that a compiler heeds, as far as they are set."""
    return " ".join(f"{name}={os.environ[name]}" for name in _HEEDED if name in os.environ)


def identity(program: str) -> str | None:
    """Which program this is, as the file system tells; None where that does not say who answers."""
    path = Path(os.path.realpath(program))
    if not _ITSELF.search(path.name):
        return None
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return None
            parts = [path, *(sorted(_libraries(path)) if "clang" in path.name else ())]
            found = [(str(p), os.stat(p)) for p in parts]
    except OSError:
        return None
    if time.time() - max(max(s.st_mtime, s.st_ctime) for _, s in found) < SETTLED:
        return None
    return json.dumps([(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for name, s in found])


def _libraries(path: Path) -> list[Path]:
    """The libraries that most of a clang is in, from the folders where its loader finds them."""
    folders = [path.parents[1] / name for name in ("lib", "lib64")]
    return [Path(e.path) for folder in folders if folder.is_dir() for e in os.scandir(folder) if e.name.startswith(_LIBRARIES) and e.is_file()]


__all__ = ["answer", "identity", "surroundings"]
