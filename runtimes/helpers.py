"""Helper functions of the emitted source: each is a Jinja macro `NAME(t)` or `NAME(t, to)` of the runtime's `helpers/*.j2`, emitted once a type, when used.

A macro receives the types as `CType` and two functions in its environment: `need(name, t)` gives the C name of another helper (which is then emitted
before it), `vector(t)` notes that a vector type is used and gives its name.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.coefficients import COEFFICIENTS
from ..ir.dtypes import DTYPES, DType
from ..ir.errors import Unsupported, UsageError
from .literals import literal

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_SIGNED = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}
_UNSIGNED = {8: "u8", 16: "u16", 32: "u32", 64: "u64"}


class CType:
    """A dtype as templates see it.  `c` is how the language spells it; noting the use of a vector type is a side effect of asking for it."""

    def __init__(self, dtype: DType, types: Types) -> None:
        self.dtype, self._types = dtype, types
        self.name, self.kind, self.bits, self.lanes = dtype.name, dtype.kind, dtype.bits, dtype.lanes
        self.bytes = dtype.bytes
        self.is_vector = dtype.lanes > 1
        self.f = "f" if dtype.element.name == "f32" else ""  # suffix of libm's functions and of literals

    @property
    def c(self) -> str:
        return self._types.spell(self.dtype)

    @property
    def unaligned(self) -> str:
        """The same vector at element alignment."""
        return self._types.spell(self.dtype, unaligned=True)

    @property
    def element(self) -> CType:
        return self._types.info(self.dtype.element)

    @property
    def signed(self) -> CType:
        """Signed integers of the same width and lanes: also the type of a mask."""
        return self._types.info(DTYPES[_SIGNED[self.bits]].vector(self.lanes))

    @property
    def unsigned(self) -> CType:
        return self._types.info(DTYPES[_UNSIGNED[self.bits]].vector(self.lanes))

    @property
    def half(self) -> CType:
        """Half as many lanes."""
        return self._types.info(self.dtype.element.vector(self.lanes // 2))

    @property
    def is_wide(self) -> bool:
        """Whether it is wider than a register of the target, which holds a part of it."""
        return self.is_vector and self.bytes > self._types.register_bytes

    @property
    def words(self) -> CType:
        """The same bytes as integers of 64 bits, for vectors of 8 bytes or more."""
        return self._types.info(DTYPES["i64"].vector(self.bytes // 8))

    @property
    def fours(self) -> CType:
        """The same bytes as integers of 32 bits, for vectors of 4 bytes or more."""
        return self._types.info(DTYPES["i32"].vector(self.bytes // 4))

    def like(self, name: str) -> CType:
        """Element type `name` with as many lanes."""
        return self._types.info(DTYPES[name].vector(self.lanes))

    def terms(self, function: str) -> list[str]:
        """The coefficients of a polynomial of `ir/coefficients.py`, lowest degree first, as literals of the element type."""
        return [literal(c, self.dtype.element) for c in COEFFICIENTS[function][self.dtype.element.name]]

    @property
    def min(self) -> int | float:
        return self.dtype.min

    @property
    def max(self) -> int | float:
        return self.dtype.max


class Types:
    """The types that a source uses: scalars are spelled by `runtime.toml`, vectors by their dtype's name, each with one typedef.  `register_bytes` of the target's vectors."""

    def __init__(self, spelled: dict[str, str], register_bytes: int = 0) -> None:
        self._spelled, self.register_bytes = spelled, register_bytes
        self.vectors: dict[str, CType] = {}
        self.unaligned: dict[str, CType] = {}

    def info(self, dtype: DType) -> CType:
        return CType(dtype, self)

    def spell(self, dtype: DType, unaligned: bool = False) -> str:
        if dtype.lanes == 1:
            if dtype.name not in self._spelled:
                raise Unsupported(dtype.name, f"the runtime spells no type {dtype.name}: it is not in [types] of its runtime.toml")
            return self._spelled[dtype.name]
        (self.unaligned if unaligned else self.vectors)[dtype.name] = self.info(dtype)
        return dtype.name + ("_u" if unaligned else "")

    def sorted(self) -> list[tuple[CType, bool, bool]]:
        """(type, is its aligned form used, is its unaligned form used), narrow before wide."""
        names = sorted({**self.vectors, **self.unaligned}, key=lambda n: ((self.vectors.get(n) or self.unaligned[n]).bytes, n))
        return [(self.vectors.get(n) or self.unaligned[n], n in self.vectors, n in self.unaligned) for n in names]


class Helpers:
    """The helpers that one source uses, in an order in which each stands after those it calls."""

    def __init__(self, environment: Environment, files: tuple[Path, ...], types: Types) -> None:
        self._environment, self._files, self._types = environment, files, types
        self._names: dict[tuple[str, ...], str] = {}
        self.texts: list[str] = []
        self._modules: dict[str, Any] = {}

    def need(self, name: str, t: CType | DType | str, to: CType | DType | None = None) -> str:
        """The C name of helper `name` for these types; its text (and that of what it calls) is emitted once."""
        named = t if isinstance(t, str) else t.name
        key = (name, named) if to is None else (name, named, to.name)
        if key not in self._names:
            from .templates import blamed

            types = [self._info(x) for x in (t, to) if x is not None]
            self._names[key] = "_".join(key)
            with blamed(f"the helper `{name}` of {self._places()}"):
                text = str(getattr(self._module(name), name)(*types)).strip("\n")
            self.texts.append(text)
        return self._names[key]

    def has(self, name: str, t: DType) -> bool:
        """Whether the source uses helper `name` for this type."""
        return (name, t.name) in self._names

    def _places(self) -> str:
        return ", ".join(str(f / "helpers") for f in self._files)

    def _info(self, t: CType | DType | str) -> CType:
        """Templates may write a dtype by its name."""
        if isinstance(t, CType):
            return t
        return self._types.info(DTYPES[t] if isinstance(t, str) else t)

    def _module(self, name: str) -> Any:
        if name not in self._modules:
            text = part(self._files, name)
            if text is None:
                raise UsageError(f'`@{name}` or need("{name}"): there is no such helper in {self._places()}')
            template = _template(self._environment, text)
            self._modules[name] = template.make_module({"need": self.need, "vector": self._types.info})
        return self._modules[name]


@cache
def _template(environment: Environment, text: str) -> Template:
    from .templates import of_text

    return of_text(environment, text)


_MACRO = re.compile(r"^\{% macro (\w+)\(.*?\{% endmacro %\}\n?", re.MULTILINE | re.DOTALL)
_SET = re.compile(r"^\{% set (\w+) = .*?%\}\n", re.MULTILINE | re.DOTALL)


@cache
def part(folders: tuple[Path, ...], name: str) -> str | None:
    """The part of its file that a macro needs; None where there is no such macro.

    Jinja's compiler takes longer than all the rest of rendering, so only what is used is given to it: the macro, and of the other macros and constants of its file (and of the folder's `shared.j2`)
    those whose names it mentions.
    """
    pieces = _pieces(folders).get(name)
    return None if pieces is None else _closure(name, pieces)


def names(folders: tuple[Path, ...]) -> list[str]:
    """Every macro that there is."""
    return sorted(_pieces(folders))


@cache
def _pieces(folders: tuple[Path, ...]) -> dict[str, dict[str, str]]:
    """Macro -> the macros and constants of its file and of what its folder shares; a nearer folder hides a farther one."""
    found: dict[str, dict[str, str]] = {}
    for folder in folders:
        shared = _whole(folder / "helpers" / "shared.j2")
        for file in sorted((folder / "helpers").glob("*.j2")):
            whole = _whole(file)
            for name in (n for n, text in whole.items() if _MACRO.match(text)):
                found.setdefault(name, shared | whole)
    return found


def _whole(file: Path) -> dict[str, str]:
    """The constants and then the macros of a file, by name; nothing where there is no such file."""
    if not file.exists():
        return {}
    text = file.read_text(encoding="utf-8")
    constants = {m[1]: m[0] for m in _SET.finditer(_MACRO.sub("", text))}
    return constants | {m[1]: m[0] for m in _MACRO.finditer(text)}


def _closure(name: str, pieces: dict[str, str]) -> str:
    """The piece `name` and all that it mentions, in the order of the file."""
    wanted, fresh = {name}, [name]
    while fresh:
        mentioned = set(re.findall(r"\w+", pieces[fresh.pop()])) & pieces.keys() - wanted
        wanted |= mentioned
        fresh.extend(mentioned)
    return "".join(text for key, text in pieces.items() if key in wanted)
