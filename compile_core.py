"""The modules in which the passes spend their time, compiled ahead of time by mypyc; `compiled.py` takes them in place of their sources.

    python -m luminal.compile_core        into the folder of this installation, unless it is there (needs mypy, setuptools, a C compiler and Python's headers)

A module belongs here if the passes become faster by more than what it takes to build it is worth (`python -m luminal.bench.passes` says it): what is asked for every expression and every statement.
These are about half of all that could be compiled.
None that defines a record: `==` between two of one type that it compiles is for mypyc `is`, where it sees no `__eq__` in the class.
None that is a package, a NamedTuple with a subclass, or the base of a class that is not compiled.  What `statements((loop,))` gives is for mypyc loops all the way down: the block is called a `Block` first.  mypyc holds what annotations say: a frozenset less the keys of a dictionary is a set (`.difference` and `.intersection` give frozensets).
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from . import compiled
from .ir.errors import LuminalError
from .runtimes.clang.compiler import find_compiler, run

MODULES = (
    "ir/bounds",
    "ir/conditions",
    "ir/evaluate",
    "ir/expr",
    "ir/intervals",
    "ir/kernel_body",
    "ir/knowledge",
    "ir/places",
    "ir/polynomial",
    "ir/positions",
    "ir/program_body",
    "ir/ranges",
    "ir/renaming",
    "ir/simplify",
    "ir/statement",
    "ir/text/expressions",
    "ir/verify/expressions",
    "ir/verify/program",
    "ir/walks",
    "ir/witness",
    "passes/flatten_temps",
    "passes/hoist",
    "passes/loops/dependence",
    "passes/loops/emptiness",
    "passes/loops/systems",
    "passes/lower/affine",
    "passes/lower/flatten",
    "passes/lower/function",
    "passes/lower/names",
    "passes/lower/straighten",
    "passes/lower/threads",
    "passes/lower/vectors/arrays",
    "passes/lower/vectors/axis",
    "passes/lower/vectors/columns",
    "passes/lower/vectors/guards",
    "passes/lower/vectors/lane_count",
    "passes/lower/vectors/segments",
    "passes/lower/vectors/statements",
    "passes/lower/vectors/values",
    "passes/lower/vectors/walk",
    "passes/lower/work",
    "passes/nests/nest_body",
    "passes/outline",
    "passes/programs/share",
    "passes/programs/whole_vectors",
    "passes/rules/pattern",
    "passes/schedule/affine",
    "passes/schedule/plan",
    "passes/schedule/roles",
    "passes/schedule/rows/lines",
    "passes/schedule/script",
    "passes/schedule/steps/chains",
    "passes/schedule/steps/distribute",
    "passes/schedule/steps/guards",
    "passes/schedule/steps/kinds",
    "passes/schedule/steps/loops",
    "passes/schedule/steps/prefetches",
    "passes/schedule/steps/team",
    "passes/schedule/tree",
    "passes/share_divisors",
    "passes/simplify_index",
    "passes/spare_bounds",
    "passes/split_complex",
    "passes/uncollapse",
    "passes/unroll",
)
FILES = tuple(f"{m}.py" for m in MODULES)
MYPY = ("--ignore-missing-imports", "--follow-imports=silent", f"--cache-dir={os.devnull}")
FLAGS = ("-O2", "-fPIC", "-fvisibility=hidden", "-w", "-DNDEBUG", "-fno-strict-overflow", "-fwrapv")
_ENTRIES = """#include <Python.h>
{declarations}
static const struct {{ const char *name; PyObject *(*make)(void); }} modules[] = {{
{rows}
}};

static PyObject *load(PyObject *self, PyObject *name) {{
    for (size_t k = 0; k < sizeof modules / sizeof *modules; k++)
        if (PyUnicode_CompareWithASCIIString(name, modules[k].name) == 0)
            return modules[k].make();
    PyErr_SetObject(PyExc_ImportError, name);
    return NULL;
}}

static PyMethodDef methods[] = {{ {{"load", load, METH_O, NULL}}, {{NULL, NULL, 0, NULL}} }};
static struct PyModuleDef entries = {{ PyModuleDef_HEAD_INIT, "{module}", NULL, -1, methods, NULL, NULL, NULL, NULL }};
PyMODINIT_FUNC PyInit_{module}(void) {{ return PyModule_Create(&entries); }}
"""


def compile_core(root: Path, into: Path) -> None:
    """Everything anew, whole or not at all: nothing of what was there is left."""
    lines = [compiled.interpreter(), *(compiled.line(str(root), file) for file in FILES)]
    unfinished = into.with_name(f"{into.name}.making")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    with tempfile.TemporaryDirectory(prefix="luminal-core-") as folder:
        sources, headers = _generated(root, Path(folder))
        _build(sources, headers, Path(folder), Path(compiled.library(str(unfinished))))
    (unfinished / "manifest").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.rmtree(into, ignore_errors=True)
    unfinished.rename(into)


def _generated(root: Path, place: Path) -> tuple[list[Path], list[str]]:
    """The C of all modules, a file for each, and the folders of its headers.  SystemExit where they have mistakes; what mypyc warns of (generators that it makes lists) is not shown."""
    from mypyc.build import mypycify

    (place / "luminal").symlink_to(root)  # modules are called as the folders in which they lie
    os.chdir(place)
    said = StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            group, *_ = mypycify([*MYPY, *(f"luminal/{file}" for file in FILES)], multi_file=True, group_name=compiled.ENTRIES, target_dir="c")
    except SystemExit:
        print(*(m for m in said.getvalue().splitlines() if ": warning:" not in m), sep="\n", file=sys.stderr)
        raise
    entries = place / "c" / "entries.c"
    entries.write_text(_entries())
    return [entries, *(place / file for file in group.sources)], [str(place / folder) for folder in group.include_dirs]


def _entries() -> str:
    """How the modules are asked for by name: mypyc has a library for each, and opening one takes as long as running most modules."""
    names = [compiled.name(file) for file in FILES]
    makers = [f"CPyInit_{name.replace('.', '___')}" for name in names]
    return _ENTRIES.format(
        declarations="\n".join([f"PyObject *{maker}(void);" for maker in makers]),
        rows="\n".join([f'    {{"{name}", {maker}}},' for name, maker in zip(names, makers, strict=True)]),
        module=compiled.ENTRIES,
    )


def _build(sources: list[Path], headers: list[str], place: Path, library: Path) -> None:
    compiler = find_compiler("")
    flags = [*FLAGS, f"-I{sysconfig.get_path('include')}", *(f"-I{folder}" for folder in headers)]

    def one(source: Path) -> str:
        made = place / f"{source.stem}.o"
        run([*compiler.command, *flags, "-c", str(source), "-o", str(made)], None, [], place)
        return str(made)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(one, sorted(sources, key=lambda file: -file.stat().st_size)))
    run([*compiler.command, *FLAGS, "-shared", *made, "-o", str(library)], None, [], place)


def main() -> None:
    if compiled.fresh(compiled.FOLDER, compiled.ROOT) == {compiled.name(file) for file in FILES}:
        return
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise SystemExit("luminal: Python's headers are not here, so the passes run from their sources")
    try:
        compile_core(Path(compiled.ROOT), Path(compiled.FOLDER))
    except (LuminalError, ImportError) as wrong:
        raise SystemExit(f"luminal: {wrong}") from wrong


if __name__ == "__main__":
    main()
