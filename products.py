"""What a compilation leaves on disk: one product (the suffix says which), or a folder with all of them."""

from __future__ import annotations

from pathlib import Path

from .artifacts.write import inside, write_text
from .compiler import LEVELS, Compilation
from .ir.errors import ToolError, UsageError

BUILT = {".o": "object", ".a": "static", ".so": "shared", ".ptx": "ptx", ".cubin": "cubin"}
EMITTED = ("ast", "composite", *LEVELS, "schedule", "source", "header", "object", "library")


def emit(compilation: Compilation, level: str) -> str:
    """The text of one level, as `--emit` prints it."""
    from .ir import text

    if level in ("ast", "composite"):
        if compilation.composite is None:
            raise UsageError(f"--emit {level}: {compilation.unit.name} holds no composite")
        return compilation.composite.source_text + "\n"
    if level == "schedule":
        return "".join(f"kernel {k.name}\n" + "".join(f"  {step}\n" for step in k.schedule) for k in compilation.module.kernels)
    if level == "source":
        return compilation.rendered.source
    if level == "header":
        return compilation.rendered.header
    return text.show({"graph": lambda: compilation.graph, "kernel": lambda: compilation.module, "program": lambda: compilation.program}[level]())


def suffixes(compilation: Compilation) -> dict[str, str]:
    """Suffix -> level or kind, for the runtime at hand."""
    return {
        **{f".{level}": level for level in LEVELS}, compilation.rendered.suffix if compilation.start == "program" else source_suffix(compilation): "source",
        ".h": "header", **BUILT,
    }  # fmt: skip


def source_suffix(compilation: Compilation) -> str:
    return compilation.runtime.source_suffix


def write_products(compilation: Compilation, path: Path, log: list[str] | None = None, notes: list[str] | None = None) -> list[Path]:
    """Write one product or, into a folder, source, header and library.  Gives what was written.  Where there is no compiler, and none was asked for by name, the library
    is left out, and `notes` says so."""
    if path.is_dir() or not path.suffix:
        return write_all(compilation, path, log, notes)
    known = suffixes(compilation)
    kind = known.get(path.suffix)
    if kind is None:
        raise UsageError(f"-o {path}: the suffix says what is wanted; runtime {compilation.runtime.name} knows {' '.join(known)}, or name a folder")
    if path.suffix in BUILT:
        compilation.build(kind, path, log)
    else:
        write_text(path, emit(compilation, kind))
    return [path]


def write_all(compilation: Compilation, folder: Path, log: list[str] | None = None, notes: list[str] | None = None) -> list[Path]:
    """Source, header and, where the tools are there, the shared library.  Everything is made before the first file is written."""
    rendered = compilation.rendered
    stem = compilation.name
    kind, suffix = compilation.runtime.library_kind
    library = inside(folder, f"{'lib' if kind == 'shared' else ''}{stem}{suffix}")
    try:
        compilation.product(kind, suffix, log)
    except ToolError as error:
        if not error.missing or error.asked:
            raise
        if notes is not None:
            notes.append(f"without {library.name}: {error}")
        library = None
    make_folder(folder)
    written = [inside(folder, f"{stem}{rendered.suffix}"), inside(folder, f"{stem}.h")]
    write_text(written[0], rendered.source)
    write_text(written[1], rendered.header)
    if library is not None:
        compilation.build(kind, library, log)
        written.append(library)
    return written


def make_folder(folder: Path) -> None:
    """The folder, made where it is not there.  UsageError where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
