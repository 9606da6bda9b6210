"""Which spelling of `runtime.toml` a form takes, by its operator, the class of its operands and whether they are vectors, and its text with all holes filled."""

from __future__ import annotations

from ..ir.dtypes import DType
from ..ir.errors import CompilerBug, Unsupported
from . import Description
from .helpers import Helpers, Types
from .spelling import Need, Text, parse


class Forms:
    """The spellings of one description; notes the types and helpers that they use."""

    def __init__(self, description: Description, types: Types, helpers: Helpers) -> None:
        self._description, self._spell = description, description.spell
        self._chosen: dict[tuple[str, DType, bool, str], str] = {}
        self.types, self.helpers = types, helpers

    def _choose(self, op: str, operand: DType, index: bool, kind: str = "") -> str:
        found = self._chosen.get((op, operand, index, kind))
        if found is None:
            found = self._chosen[op, operand, index, kind] = self._choice(op, operand, index, kind)
        return found

    def _choice(self, op: str, operand: DType, index: bool, kind: str) -> str:
        classes = [operand.element.name, operand.kind] if not kind else [kind]
        if index:
            classes.insert(0, "index")
        keys = [f"{op}.{c}" for c in classes] + [op]
        if operand.lanes > 1:
            keys = [f"{k}.vector" for k in keys] + keys
        for key in keys:
            if key in self._spell:
                return self._spell[key]
        table = self._description.folder / "runtime.toml"
        raise Unsupported(op, f"the runtime {self._description.name} spells no `{op}` of {operand.name}; [spell] of {table} has to")

    def _fill(
        self, op: str, args: tuple[Text, ...], result: DType, operand: DType, *, index: bool = False, kind: str = "", buffer: str = "", attr: str = ""
    ) -> Text:
        return self._put(self._choose(op, operand, index, kind), args, result, operand, index, buffer, attr)

    def _put(
        self, spelled: str, args: tuple[Text, ...], result: DType, operand: DType, index: bool = False, buffer: str = "", attr: str = ""
    ) -> Text:
        pieces = parse(spelled)
        parts = [pieces.first]
        for field, number, need, after in pieces.holes:
            if number is not None:
                if index and number == 1 and pieces.operator == "+":  # not `*`: a * (b / c) is not a * b / c
                    need = Need(need.level - 1)
                text = args[number].within(need)
                parts.append(f"({text})" if text.startswith("-") and parts[-1].endswith("-") else text)
            else:
                parts.append(self._field(field, result, operand, buffer, attr))
            parts.append(after)
        text = "".join(parts)
        if "@" in text:
            text = self._helpers(text, result, operand)
        return Text(text, pieces.level)

    def _field(self, hole: str, result: DType, operand: DType, buffer: str, attr: str) -> str:
        if hole == "T":
            return self.types.spell(result)
        if hole == "E":
            return self.types.spell(result.element)
        fields = {"f": self.types.info(operand).f, "n": str(result.lanes), "to": result.name, "from": operand.name, "buffer": buffer, "attr": attr}
        if hole not in fields:
            raise CompilerBug("render", f"a spelling uses the unknown field {{{hole}}}")
        return fields[hole]

    def _helpers(self, text: str, result: DType, operand: DType) -> str:
        """Every `@name` of the text by the name of the helper for these types; `@name:to` is one for a pair of types."""
        pieces = text.split("@")
        parts = [pieces[0]]
        for piece in pieces[1:]:
            name, _, rest = piece.partition("(")
            pair = name.endswith(":to")
            parts.append(f"{self.helpers.need(name.removesuffix(':to'), operand, result if pair else None)}({rest}")
        return "".join(parts)
