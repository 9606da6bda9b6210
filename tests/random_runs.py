"""Random programs, compiled in three ways, run, compared with the interpreter; what fails is shrunk and kept.

    python tests/random_runs.py --count 20000 --state FILE      goes on where FILE says that it was, and writes what it finds to tests/found/

The three ways: -O0 (one kernel a primop) or -O1, -O2 (the automatic schedule), and schedules of random steps.  UNIT programs share a translation unit, and the place that they are compiled
for: this machine, its narrowest vectors, a GPU under the host shim, or any target by its name.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from luminal import dsl, runtimes
from luminal.ir.errors import LuminalError, SourceError
from luminal.ir.graph import Graph
from luminal.ir.kernel import Module
from luminal.ir.target import Options, Target
from luminal.passes.pipeline import run_pipeline
from luminal.runtimes import Runtime
from luminal.runtimes.clang.compiler import Compiler
from luminal.runtimes.clang.driver import Driver
from luminal.search.conformance.kernels import Kernel, Refused, Spec
from luminal.search.conformance.sizes import legal
from luminal.search.conformance.subjects import OWN, Subject
from luminal.search.conformance.unit import Case, Library, Settings, Tally, built, worker
from random_composites import Form, random_composite, show
from random_schedules import randomly_scheduled

FOUND = Path(__file__).parent / "found"
POINTS = 2000  # of the joint domain: loops that stay loops are interpreted one iteration at a time
UNIT = 55  # programs
CONFIG: dict[str, str] = {}  # of the runtime, beside that of the place
EXTENTS = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33)
SETTINGS = {
    "native": Settings("clang", config={"DEBUG": "1"}, timeout=20.0, mem_limit=4096),
    "narrow": Settings("clang", config={"DEBUG": "1", "VECTOR": "16"}, timeout=20.0, mem_limit=4096),
    "cuda": Settings("cuda", config={"DEBUG": "1"}, timeout=20.0, mem_limit=4096, device="host"),
}


@dataclass(frozen=True)
class Program:
    name: str
    form: Form
    seed: int


@dataclass
class Failure:
    program: Program
    way: str
    status: str
    detail: str
    case: str = ""
    text: str = field(default="")  # shrunk


class Plain(Driver):
    """The clang runtime, its C compiled as asked: it is not the C compiler that is tested, and -O1 takes it ten times as long as all of our passes."""

    level = "-O0"

    def flags(self, compiler: Compiler, target: Target) -> tuple[str, ...]:
        return tuple(self.level if f == "-O1" else f for f in super().flags(compiler, target) if f != "-g")


@cache
def place(where: str) -> tuple[Runtime, Target, Settings]:
    settings = SETTINGS.get(where) or replace(SETTINGS["native"], target=where)
    settings = replace(settings, config={**settings.config, **CONFIG})
    if "SANITIZE" in CONFIG:
        settings = replace(settings, mem_limit=None)  # what ASan reserves is no memory
    runtime = runtimes.find(settings.runtime)
    if isinstance(runtime, Driver):
        runtime = Plain(runtime.description, runtime.folders)
    return runtime, runtime.target(settings.target, settings.config, False), settings


def graph_of(form: Form, name: str = "random.lisp") -> Graph:
    (composite,) = dsl.read(form if isinstance(form, str) else show(form), name)
    return dsl.elaborate(composite, dsl.Scope((composite,)))


def in_toml(form: Form) -> str:
    """The same program in the other notation."""
    _, name, (inputs, _, outputs), *body = form
    ports = f"inputs = {json.dumps(inputs)}\noutputs = {json.dumps(outputs)}"
    return f"[composite]\nname = {json.dumps(name)}\n{ports}\n\n[implementation]\ncode = {json.dumps(' '.join(map(show, body)))}\n"


def compiled(program: Program, graph: Graph, target: Target) -> Iterator[Kernel | Failure]:
    """Through the passes in each of the ways; whatever goes wrong there is a failure.  A random schedule begins with the kernels that the automatic one is given."""
    unscheduled: Module | None = None
    plain = random.Random(f"{program.seed} level").choice(("O0", "O1"))
    for way in (plain, "O2") if target.gpu else (plain, "O2", "schedule"):
        levels: dict[str, Any] = {}

        def observe(name: str, level: str, ir: Any, seconds: float, levels: dict[str, Any] = levels) -> None:
            levels[level] = levels[name] = ir

        try:
            if way != "schedule":
                made = run_pipeline(graph, "graph", target, Options(level=int(way[1])), observe)
                unscheduled, raised = levels["legalize"], levels["graph"]
            elif unscheduled is not None:
                rng = random.Random(f"{program.seed} schedule")
                made = run_pipeline(randomly_scheduled(unscheduled, rng, rng.randint(1, 6), 40), "kernel", target, Options(), observe)
            else:
                continue
        except Exception as error:
            yield Failure(program, way, "passes", described(error))
            continue
        spec = Spec(program.name, "composite", OWN, variant=way)
        subject = Subject(program.name, "composite", "random", lambda dtype, ranks, parameters: graph, (OWN,))
        yield Kernel(spec, subject, graph, raised, made)


def cases_of(kernel: Kernel, quick: bool) -> list[Case]:
    """Three bindings; the same for each way."""
    rng = random.Random(f"{kernel.subject.name} sizes")
    found: list[Case] = []
    for _ in range(40):
        sizes = {s.name: rng.choice(EXTENTS) for s in kernel.graph.sizes}
        if legal(kernel.graph, sizes) and math.prod(sizes.values()) <= POINTS and all(c.sizes != sizes for c in found):
            found.append(Case(sizes, "drawn", "random"))
        if len(found) == (3 if kernel.graph.sizes else 1):
            break
    return found


def check(programs: list[Program], counts: Counter[str], where: str = "native") -> Iterator[Failure]:
    """Every program in every way.  `counts` learns how many were refused by the language, and how many cases were run."""
    kernels: list[Kernel] = []
    by_name = {p.name: p for p in programs}
    runtime, target, settings = place(where)
    for p in programs:
        try:
            graph = graph_of(p.form)
            if not isinstance(p.form, str) and graph_of(in_toml(p.form), "random.toml").outputs != graph.outputs:
                yield Failure(p, "", "notation", "in TOML it is another graph")
        except SourceError:
            counts["refused"] += 1
            continue
        except Exception as error:
            yield Failure(p, "", "elaboration", described(error))
            continue
        counts["programs"] += 1
        for found in compiled(p, graph, target):
            if isinstance(found, Failure):
                yield found
            else:
                kernels.append(found)
    with worker(runtime, target) as child:
        for part in built(kernels, runtime, target, settings):
            if isinstance(part, Refused):
                yield Failure(by_name[part.spec.subject], part.spec.variant, part.status, part.detail)
                continue
            for tally in Library(part, settings, cases_of).run(child):
                counts["cases"] += tally.cases
                counts["points"] += tally.points
                counts["undecided"] += tally.undecided
                if tally.status != "passes":
                    yield of_tally(by_name[tally.spec.subject], tally)


def of_tally(program: Program, tally: Tally) -> Failure:
    return Failure(program, tally.spec.variant, tally.status, tally.detail, tally.failed)


def described(error: Exception) -> str:
    return str(error) if isinstance(error, LuminalError) else f"{type(error).__name__}: {error}"


# ---- shrinking


def smaller(form: Form) -> Iterator[Form]:
    """The form with one part replaced by a part of its own, or left out; the largest cuts first."""
    if isinstance(form, str):
        return
    for path in sorted(paths(form), key=lambda p: -size_of(at(form, p))):
        part = at(form, path)
        if path and path[0] < 3:
            continue
        if isinstance(part, list):
            for inner in part[1:] if part and isinstance(part[0], str) else part:
                yield put(form, path, inner)
        if path:
            yield put(form, path, None)
    inputs, arrow, outputs = form[2]
    for k in range(len(inputs)):
        yield [*form[:2], [inputs[:k] + inputs[k + 1 :], arrow, outputs], *form[3:]]
    for k in range(len(outputs)):
        if len(outputs) > 1:
            body = [[*s[: k + 1], *s[k + 2 :]] if s[0] == "return" else s for s in form[3:]]
            yield [*form[:2], [inputs, arrow, outputs[:k] + outputs[k + 1 :]], *body]


def paths(form: Form, prefix: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield prefix
    if isinstance(form, list):
        for k, inner in enumerate(form):
            yield from paths(inner, (*prefix, k))


def at(form: Form, path: tuple[int, ...]) -> Form:
    for k in path:
        form = form[k]
    return form


def put(form: Form, path: tuple[int, ...], new: Form | None) -> Form:
    if not path:
        return new
    k = path[0]
    if len(path) == 1 and new is None:
        return form[:k] + form[k + 1 :]
    return [*form[:k], put(form[k], path[1:], new), *form[k + 1 :]]


def size_of(form: Form) -> int:
    return 1 if isinstance(form, str) else 1 + sum(map(size_of, form))


def shrunk(failure: Failure, where: str, budget: int = 200) -> Failure:
    """The smallest program found that fails in the same way with the same status."""
    best = failure
    tried: set[str] = set()
    progress = True
    while progress:
        progress = False
        for candidate in smaller(best.program.form):
            words = show(candidate)
            if size_of(candidate) >= size_of(best.program.form) or words in tried:
                continue
            tried.add(words)
            if budget <= 0:
                break
            try:
                graph_of(candidate)
            except SourceError:
                continue
            except Exception:
                if failure.status != "elaboration":
                    continue
            budget -= 1
            program = Program(best.program.name, candidate, best.program.seed)
            found = next((f for f in check([program], Counter(), where) if (f.way, f.status) == (failure.way, failure.status)), None)
            if found is not None:
                best, progress = found, True
                break
    best.text = show(best.program.form)
    return best


def keep(failure: Failure, where: str = "native") -> Path:
    """Write a failure down as a test."""
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"{failure.program.name}_{failure.way or 'elaboration'}.lisp"
    detail = " ".join(failure.detail.split())[:300]
    path.write_text(f"; seed={failure.program.seed} where={where} way={failure.way} {failure.status} {failure.case}\n; {detail}\n{failure.text}\n")
    return path


def programs(first: int, count: int) -> list[Program]:
    return [Program(f"seed_{seed}", random_composite(random.Random(seed)), seed) for seed in range(first, first + count)]


def run(first: int, count: int, counts: Counter[str], where: str = "native") -> Iterator[Failure]:
    """`count` programs from the seed `first` on, UNIT a translation unit; failures shrunk, one for each program."""
    # collecting garbage walks every interned node again and again, and there are no cycles worth it
    gc.set_threshold(200_000, 50, 100)
    for start in range(first, first + count, UNIT):
        seen: set[str] = set()
        for failure in list(check(programs(start, min(UNIT, first + count - start)), counts, where)):
            if failure.program.name not in seen:
                seen.add(failure.program.name)
                yield shrunk(failure, where)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--first", type=int, default=100_000, help="the first seed")
    parser.add_argument("--where", default="native", help=f"{', '.join(SETTINGS)}, or a target of clang's")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of the runtime: CC=gcc, SANITIZE=all")
    parser.add_argument("--level", choices=["-O0", "-O1", "-O3"], default="-O0", help="of the C compiler")
    parser.add_argument("--state", type=Path, required=True, help="where it is written how far the run has come")
    options = parser.parse_args()
    Plain.level = options.level
    CONFIG.update(words.split("=", 1) for words in options.config)
    state = json.loads(options.state.read_text()) if options.state.exists() else {"done": 0, "failures": 0, "seconds": 0.0, "counts": {}}
    counts: Counter[str] = Counter(state["counts"])
    while state["done"] < options.count:
        began = time.monotonic()
        for failure in run(options.first + state["done"], min(UNIT, options.count - state["done"]), counts, options.where):
            state["failures"] += 1
            print(f"{keep(failure, options.where)}: {failure.status} {failure.detail[:200]}", flush=True)
        state["done"] += UNIT
        state["seconds"] += time.monotonic() - began
        state["counts"] = dict(counts)
        options.state.write_text(json.dumps(state) + "\n")
    print(json.dumps(state))


if __name__ == "__main__":
    sys.exit(main())
