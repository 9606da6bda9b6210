"""`runtime.toml`: read, checked strictly, and merged over the runtime that it inherits from.

    name = "clang"                      required
    summary = "one line"
    inherits = "clang"                  optional: driver, templates and every table that is not given here come from there
    suffix = ".c"                       of the emitted source
    indent = 2                          2 or 4
    restrict = "restrict"               how a pointer that nothing else aliases is marked

    [target]                            what the passes may know; see `ir/target.py`
    dtypes, arithmetic = ["f32", …]     element types of buffers; those that are computed with
    vectors, threads, gpu = true        what may be emitted at all
    max_threads = 1024
    interpreted = true                  a thousand times slower than machine code: `test-runtime` takes smaller cases

    [types]                             element type -> how the language spells it
    f32 = "float"

    [spell]                             operator -> text with {0} {1} {2} for the operands; or a table by what it is applied to:
    add = "{0} + {1}"                   keys "any", a kind (float int uint bool), an element type (f32) or "index" (exact i64 arithmetic on sizes and
    floor = { any = "floor{f}({0})", vector = "@floor({0})" }    positions), each also with ".vector" behind it, and "vector" alone; the most special one wins

    [instructions.NAME]                 one of `ir/instructions.py`, spelled as an operator is
    spell = "@dot4_i8({0}, {1}, {2})"
    needs = { avx_vnni_int8 = 32 }      features of a machine that bring it, by the names of /proc/cpuinfo, with the bytes of the widest vectors
                                        (of tiles: spelled with {0} {1} {2} the first elements of result and operands, {3} the result's row, {4} {5} the left operand's
                                        step and row, {6} {7} the right one's, {8} the number of steps, {9} {10} rows and columns, {11} whether it begins anew; see `Multiply` in ir/program.py;
                                        of what warps multiply: `@` and the helper that the macro `Matrix` calls, and the compute capability as sm)

    [config.KEY]                        one key of --config
    type = "bool"                       bool | int | string
    default, help, choices

In a spelling `{T}` is the type of the result, `{E}` its element type, `{f}` the suffix of libm's float functions, `{n}` the lanes, `{buffer}` what a memory
form reads or writes, `{to}` and `{from}` dtype names, and `@name` a helper: a macro of the folder's `helpers/*.j2`, emitted only when used.
Memory forms and other program-level expressions are spelled in the same table: vload load_first load_between gather vstore store_first stream stream_first broadcast ramp extract fold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli

from ..ir.dtypes import DTYPES
from ..ir.errors import UsageError
from ..ir.instructions import FRAGMENTS, GROUPED, INSTRUCTIONS, LANE_BY_LANE, QUOTIENT, TILES
from ..ir.primops import OPS
from . import ConfigKey, Description
from .spelling import parse

FORMS = (
    "vload", "load_first", "load_between", "gather", "vstore", "store_first", "stream", "stream_first", "broadcast", "ramp", "extract", "fold", "zip_low", "zip_high", "unzip", "pick", "repeat", "select", "load_if",
    "gather_if", "mask",
    "cast_saturate", "cast_small", "cast_to_bool",
)  # fmt: skip
FIELDS = ("T", "E", "f", "n", "to", "from", "buffer", "attr")  # what a spelling may name besides operands
_TOML = {str: "a string", int: "an integer", float: "a float", bool: "a boolean", list: "an array", dict: "a table"}
OURS = Path(__file__).parent
_TOP = {
    "name": str,
    "summary": str,
    "inherits": str,
    "suffix": str,
    "indent": int,
    "restrict": str,
    "target": dict,
    "types": dict,
    "spell": dict,
    "config": dict,
    "instructions": dict,
}
_TARGET = {"dtypes": list, "arithmetic": list, "vectors": bool, "threads": bool, "gpu": bool, "max_threads": int, "interpreted": bool}
_INSTRUCTION = {"spell": str, "needs": dict}
_CONFIG = {"type": str, "default": object, "help": str, "choices": list}
_CONFIG_TYPES = {"bool": bool, "int": int, "string": str}
_CLASSES = ("any", "index", "float", "int", "uint", "bool", *DTYPES)


def read_description(folder: Path) -> Description:
    """The checked `runtime.toml` of a folder.  UsageError for what is missing, unknown or of the wrong type."""
    file = folder / "runtime.toml"
    try:
        table = tomli.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder} is no runtime: it holds no runtime.toml") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None
    if folder.parent != OURS:  # those are held by the tests
        check(table, str(file))
    return describe(table, folder)


def describe(table: dict[str, Any], folder: Path) -> Description:
    """A checked table as a `Description`; `table` itself is kept for what only the driver reads."""
    return Description(
        name=table["name"],
        folder=folder,
        spell=dict(_spellings(table.get("spell", {}))),
        dtypes=dict(table.get("types", {})),
        config=tuple(
            ConfigKey(name, key["type"], key.get("default"), key["help"], tuple(key.get("choices", ())))
            for name, key in table.get("config", {}).items()
        ),
        table=table,
    )


def merge(parent: dict[str, Any], child: dict[str, Any]) -> dict[str, Any]:
    """The child's keys over the parent's; tables are merged one level deep, so that one spelling or one config key can be replaced."""
    result = {k: dict(v) if isinstance(v, dict) else v for k, v in parent.items()}
    for key, value in child.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key].update(value)
        else:
            result[key] = value
    return result


def check(table: dict[str, Any], where: str) -> None:
    """Every key known and of the right type, or a UsageError that names the nearest known one."""
    _keys(table, _TOP, where)
    if "name" not in table:
        raise UsageError(f"{where}: `name` is missing")
    if table.get("indent", 2) not in (2, 4):
        raise UsageError(f"{where}: `indent` is 2 or 4, found {table['indent']}")
    target = table.get("target", {})
    _keys(target, _TARGET, f"{where}: [target]")
    for key in ("dtypes", "arithmetic"):
        for name in target.get(key, ()):
            _known(name, DTYPES, f"{where}: [target] {key}", "element type")
    for name, text in table.get("types", {}).items():
        _known(name, DTYPES, f"{where}: [types]", "element type")
        _typed(text, str, f"{where}: [types] {name}")
    for op, value in table.get("spell", {}).items():
        _known(op, (*OPS, *FORMS), f"{where}: [spell]", "operator")
        for key, text in value.items() if isinstance(value, dict) else (("any", value),):
            if key != "vector":
                _known(key.removesuffix(".vector"), _CLASSES, f"{where}: [spell] {op}", "class of operands")
            _typed(text, str, f"{where}: [spell] {op}")
            _holes(text, OPS[op].arity if op in OPS else None, f"{where}: [spell] {op} = {text!r}")
    for name, row in table.get("instructions", {}).items():
        here = f"{where}: [instructions.{name}]"
        _known(name, (*INSTRUCTIONS, *LANE_BY_LANE, QUOTIENT.name, *TILES, *FRAGMENTS, GROUPED), f"{where}: [instructions]", "instruction")
        _typed(row, dict, here)
        _keys(row, _INSTRUCTION, here)
        for needed in _INSTRUCTION:
            if needed not in row:
                raise UsageError(f"{here}: `{needed}` is missing")
        _holes(row["spell"], None, f"{here} spell = {row['spell']!r}")
    for name, key in table.get("config", {}).items():
        here = f"{where}: [config.{name}]"
        _typed(key, dict, here)
        _keys(key, _CONFIG, here)
        for needed in ("type", "help"):
            if needed not in key:
                raise UsageError(f"{here}: `{needed}` is missing")
        _known(key["type"], _CONFIG_TYPES, here, "type")
        if "default" in key:
            _typed(key["default"], _CONFIG_TYPES[key["type"]], f"{here} default")


def _holes(text: str, arity: int | None, where: str) -> None:
    """Every hole of a spelling is a field, or an operand that there is (`arity` None: how many there are is not known here)."""
    for hole in [h.field for h in parse(text).holes]:
        if not hole.isdecimal():
            _known(hole, FIELDS, where, "field")
        elif arity is not None and int(hole) >= arity:
            last = f"{{0}} to {{{arity - 1}}}" if arity > 1 else "{0}"
            raise UsageError(f"{where}: there is no operand {{{hole}}}; the operator has {last}")


def _spellings(spell: dict[str, Any]) -> list[tuple[str, str]]:
    """`add = {int = …}` as the flat key `add.int`; a bare string (and `any`) as `add`."""
    flat: list[tuple[str, str]] = []
    for op, value in spell.items():
        entries = value if isinstance(value, dict) else {"any": value}
        flat.extend((op if key == "any" else f"{op}.{key.removeprefix('any.')}", text) for key, text in entries.items())
    return flat


def _keys(table: dict[str, Any], known: dict[str, type], where: str) -> None:
    for key, value in table.items():
        _known(key, known, where, "key")
        _typed(value, known[key], f"{where} {key}")


def _known(name: str, known: Any, where: str, what: str) -> None:
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, list(known), 1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; known: {', '.join(sorted(known))}"
        raise UsageError(f"{where}: unknown {what} `{name}`{hint}")


def _typed(value: object, expected: type, where: str) -> None:
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise UsageError(f"{where}: expected {_TOML[expected]}, found {_TOML.get(type(value), 'a date or time')}: {value!r}")
