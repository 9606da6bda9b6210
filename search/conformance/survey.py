"""A whole run: which units there are, several processes that work them off, a journal from which an interrupted run goes on."""

from __future__ import annotations

import gc
import hashlib
import json
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict
from fnmatch import fnmatchcase
from multiprocessing import active_children, get_context
from pathlib import Path

from ...dsl.scope import LIBRARY
from ...ir.dtypes import DTYPES
from ...ir.errors import UsageError
from ...ir.record import record, replace
from ...runtimes import rooms
from .. import own
from .kernels import Spec, specs
from .subjects import OWN, Subject, subjects
from .unit import Settings, Tally, run_unit

ROOM = "test-runtime"  # of journals, where no report is written to a file
UNIT = 64  # kernels of one translation unit
_QUICK_DTYPES = ("f32", "i32")
_REPORT = "REPORT."  # what a runtime's folder holds of its own reports does not change the runtime


@record
class Progress:
    units: int
    done: int
    cases: int
    failed: int  # kernels that do not pass


def chosen(globs: Sequence[str]) -> list[Subject]:
    """The subjects that a name pattern, or a family, admits.  UsageError where there is none."""
    every = subjects()
    found = [s for s in every if not globs or any(fnmatchcase(s.name, g) or fnmatchcase(s.family, g) for g in globs)]
    if not found:
        from difflib import get_close_matches

        close = get_close_matches(globs[0], [s.name for s in every], 1)
        raise UsageError(f"--ops {globs[0]}: no primop, operator, composite or family of this name" + (f"; nearest: {close[0]}" if close else ""))
    return found


def units(found: Sequence[Subject], dtypes: Sequence[str], quick: bool) -> list[list[Spec]]:
    """The kernels of a run in translation units of at most UNIT, all of one dtype each where it has one."""
    wanted = tuple(dtypes) or (_QUICK_DTYPES if quick else tuple(DTYPES))
    groups: dict[tuple[str, bool], list[Spec]] = {}
    for spec in specs(found, wanted, quick):
        groups.setdefault((spec.dtype, spec.kind == "composite"), []).append(spec)
    return [group[k : k + UNIT] for group in groups.values() for k in range(0, len(group), UNIT)]


def survey(
    work: Sequence[Sequence[Spec]], settings: Settings, processes: int, journal: Path | None, resume: bool, tell: Callable[[Progress], None]
) -> list[Tally]:
    """Run every unit.  With a journal what is done is kept, unless luminal's own files have changed meanwhile, and with `resume` not done again.  The result does not depend on the number of processes."""
    done = recorded(journal, key_of(work, settings)) if journal is not None and resume else {}
    if journal is not None:
        start(journal, key_of(work, settings), done)
    left = [k for k in range(len(work)) if k not in done]

    def note(k: int, tallies: list[Tally]) -> None:
        done[k] = tallies
        if journal is not None and own.compiler_unchanged():
            with journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"unit": k, "tallies": [asdict(t) for t in tallies]}) + "\n")
        every = [t for found in done.values() for t in found]
        tell(Progress(len(work), len(done), sum(t.cases for t in every), sum(t.status not in ("passes", "not supported", "dtype") for t in every)))

    with closing(finished(work, left, settings, processes)) as units_done:
        for k, tallies in units_done:
            note(k, tallies)
    return [t for k in sorted(done) for t in done[k]]


def finished(work: Sequence[Sequence[Spec]], left: list[int], settings: Settings, processes: int) -> Generator[tuple[int, list[Tally]], None, None]:
    """Units as they are done.  Processes are spawned: a forked one would inherit what threads hold."""
    if processes == 1 or len(left) < 2:
        patient()
        for k in left:
            yield k, run_unit(work[k], settings)
        return
    pool = ProcessPoolExecutor(min(processes, len(left)), mp_context=get_context("spawn"), initializer=patient)
    try:
        pending: dict[Future[list[Tally]], int] = {pool.submit(run_unit, work[k], settings): k for k in left}
        while pending:
            ready, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in sorted(ready, key=lambda f: pending[f]):
                yield pending.pop(future), future.result()
    except BaseException:  # interrupted: what has begun is not waited for
        for process in active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def patient() -> None:
    """Collecting garbage walks every interned node again and again: seldom is enough, there are few cycles."""
    gc.set_threshold(200_000, 50, 100)


# ---- the journal


def journal_of(output: Path | None, work: Sequence[Sequence[Spec]], settings: Settings) -> Path:
    """Beside the report, or in the cache folder where no report is written to a file."""
    if output is not None:
        return output.with_name(f".{output.name}.journal")
    return rooms.folder(ROOM) / f"{key_of(work, settings)[:16] or 'unknown'}.journal"


def key_of(work: Sequence[Sequence[Spec]], settings: Settings) -> str:
    """What the results depend on, luminal's own files among it: a journal of anything else is no use.  "" where those changed while this process ran: no journal is of that."""
    from ...runtimes import find

    compiler = own.compiler()
    if compiler is None:
        return ""
    parts = [compiler, library_hash(), folder_hash(find(settings.runtime).folder), repr(replace(settings, timeout=0.0)), repr(work)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def start(journal: Path, key: str, done: dict[int, list[Tally]]) -> None:
    """Begin the journal anew with what is already known."""
    from ...artifacts.write import write_text

    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{journal.parent}: {(error.strerror or str(error)).lower()}") from None
    lines = [json.dumps({"key": key, "began": round(time.time())})]
    lines += [json.dumps({"unit": k, "tallies": [asdict(t) for t in tallies]}) for k, tallies in sorted(done.items())]
    write_text(journal, "\n".join(lines) + "\n")
    if journal.parent == rooms.folder(ROOM):
        rooms.shorten(ROOM)


def recorded(journal: Path, key: str) -> dict[int, list[Tally]]:
    """Units that an interrupted run of the same kind has finished; {} where there is none.  A line that was cut off is left out."""
    try:
        lines = journal.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    found: dict[int, list[Tally]] = {}
    for number, line in enumerate(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            break
        if number == 0:
            if not key or entry.get("key") != key:
                return {}
            continue
        found[entry["unit"]] = [tally_of(t) for t in entry["tallies"]]
    return found


def tally_of(table: dict) -> Tally:
    """A tally as JSON keeps it: keys of counts are text there."""
    counts = {name: {int(k): v for k, v in table[name].items()} for name in ("steps", "allowed")}
    return Tally(**{**table, **counts, "spec": Spec(**table["spec"])})


# ---- what a report is a report of


def library_hash() -> str:
    """Over the files of `ops/`."""
    return _hash(sorted(p for p in LIBRARY.rglob("*.toml")), LIBRARY)


def folder_hash(folder: Path) -> str:
    """Over the files of a runtime's folder but its own reports."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts and not p.name.startswith((_REPORT, ".")))
    return _hash(files, folder)


def _hash(files: Sequence[Path], folder: Path) -> str:
    digest = hashlib.sha256()
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


__all__ = ["OWN", "Progress", "chosen", "folder_hash", "journal_of", "library_hash", "recorded", "survey", "units"]
