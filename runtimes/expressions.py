"""Expressions of the program level as text of a C-family language, by the spellings of `runtime.toml`.

Integers.  A *position* (built of sizes, loop variables and literals only) is exact by definition, so it is spelled with the plain operators (class
`index`); integer values that come from data wrap and take the spelling of their kind.  `floordiv`, `mod` and `shift_right` take the class `index` where
their operands are proven to be in the range in which C's operator means the same.

Vectors of bools live in masks: integer vectors of the width of what was compared, all bits set for true.  Memory holds bytes 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import positions
from ..ir.decompose import DECOMPOSITIONS, expand
from ..ir.dtypes import DTYPES, INDEX, DType, bool_, f32, u16, u32
from ..ir.errors import CompilerBug
from ..ir.expr import Expr
from ..ir.instructions import FRAGMENTS, GROUPED, TILES
from ..ir.polynomial import Poly, expr as polynomial, plus, poly
from ..ir.program import Matrix, Multiply
from ..ir.record import replace
from ..ir.swizzle import PIECE
from ..ir.target import LINE
from ..ir.walks import missing
from . import Description
from .forms import Forms
from .helpers import Helpers, Types
from .literals import SMALL, literal
from .scope import Info, Scope
from .spelling import ADD, ANY, ANY_MASK, ARGUMENT, MUL, POSTFIX, UNARY, Need, Text, parse

_LIMIT = 100_000  # characters of one expression: more means that shared subexpressions were not named


class Expressions(Forms):
    """Renders expressions in a scope; notes the types and helpers that they use."""

    def __init__(self, description: Description, types: Types, helpers: Helpers) -> None:
        super().__init__(description, types, helpers)
        self._instructions = description.table.get("instructions", {})
        self._spelled = frozenset(key.partition(".")[0] for key in self._spell)
        self._spells_all = self._spelled >= DECOMPOSITIONS.keys()
        self._respelled: dict[tuple[tuple[str, str], ...], Expressions] = {}
        self._scope = Scope()
        self._meaning = 0  # of the scope in which `_texts` holds
        self._texts: dict[Expr, Text] = {}  # what has been rendered: half of what a program says, it says again

    @property
    def scope(self) -> Scope:
        return self._scope

    @scope.setter
    def scope(self, scope: Scope) -> None:
        self._scope = scope
        self._texts = {}
        self._meaning = scope.meaning

    def respelled(self, spell: dict[str, str]) -> Expressions:
        """The same scope with other spellings: `op` replaces all forms of an operator, `op.class` one of them."""
        name = tuple(spell.items())
        other = self._respelled.get(name)
        if other is None:
            whole = {key for key in spell if "." not in key}
            kept = {k: v for k, v in self._spell.items() if k.partition(".")[0] not in whole}
            other = self._respelled[name] = Expressions(replace(self._description, spell={**kept, **spell}), self.types, self.helpers)
        if other.scope is not self.scope:
            other.scope = self.scope
        return other

    def text(self, e: Expr, need: Need = ARGUMENT) -> str:
        """A scalar or a vector that is no bool."""
        return self.rendered(e).within(need)

    def rendered(self, root: Expr) -> Text:
        if self._meaning != self._scope.meaning:
            self._texts, self._meaning = {}, self._scope.meaning
        done = self._texts
        found = done.get(root)
        if found is not None:
            return found
        # what passes after legalize have made (comparisons and arithmetic of positions) may be derived operators that this runtime does not spell
        spelled = root if self._spells_all else expand(root, self._spelled)
        for e in missing(spelled, done):
            text = done[e] = self._node(e, done)
            if len(text.text) > _LIMIT:
                raise CompilerBug("render", "one expression grew past 100000 characters: shared parts must be bound by `let`")
        found = done[root] = done[spelled]
        return found

    def mask_bits(self, t: Text) -> int:
        return t.mask if t.mask > 0 else 8

    def as_mask(self, t: Text, bits: int, lanes: int) -> Text:
        """A vector of bools as a mask of this width."""
        to = self._integers(bits, lanes)
        if t.mask == ANY_MASK:
            return self._fill("mask", (t,), to, to)._replace(mask=bits)
        return t if t.mask == bits else self._fill("cast", (t,), to, self._integers(self.mask_bits(t), lanes))._replace(mask=bits)

    def as_bytes(self, t: Text, lanes: int) -> Text:
        """A vector of bools as bytes 0 and 1, as memory has them."""
        to = DTYPES["u8"].vector(lanes)
        if t.mask == ANY_MASK:
            return self._fill("broadcast", (t,), to, to)
        ones = Text(f"-{t.within(Need(UNARY))}", UNARY)
        return self._fill("cast", (ones,), to, self._integers(self.mask_bits(t), lanes))

    # ---- what is known of an integer

    def is_position(self, root: Expr) -> bool:
        return positions.is_position(root, self.known, self._scope.positions)

    def is_natural(self, root: Expr) -> bool:
        """Proven >= 0 whatever the sizes."""
        return positions.is_natural(root, self.known, self._scope.naturals)

    def known(self, e: Expr) -> positions.Known:
        info = self.number(e.op, e.attr)
        return positions.Known(info.position, info.natural)

    # ---- one node

    def _node(self, e: Expr, done: dict[Expr, Text]) -> Text:
        args = [done[a] for a in e.args]
        special = _SPECIAL.get(e.op)
        if special is not None:
            return special(self, e, args)
        if e.op.startswith("ins"):
            return self._instruction(e, args)
        operand = e.args[1].dtype if e.op == "where" else e.args[0].dtype
        if operand.lanes > 1 and e.op != "where":
            return self._vector(e, operand, args)
        return self._scalar(e, operand, args)

    def number(self, op: str, name: str) -> Info:
        info = self._scope.number("size" if op == "size" else "var", name)
        if info is None:
            raise CompilerBug("render", f"the program uses `{name}` where it is not declared")
        return info

    def buffer(self, name: str) -> Info:
        info = self._scope.get(("buffer", name))
        if info is None:
            raise CompilerBug("render", f"the program uses the buffer `{name}` where it is not declared")
        return info

    def place(self, info: Info, address: Expr) -> Text:
        """Where an element of a buffer lies.  Of a swizzled array whole groups of rows are counted apart: what they stand before is the same in each."""
        if not info.swizzle:
            return self.rendered(address)
        far: Poly = {m: n for m, n in poly(address).items() if n % (PIECE * info.swizzle) == 0}
        near = self.text(polynomial(plus(poly(address), far, -1)))
        groups = f" + {self.rendered(polynomial(far)).within(Need(MUL))}" if far else ""
        return Text(f"{self.helpers.need('placed', u16)}<{info.swizzle}>({near}){groups}", ADD if far else POSTFIX)

    def _const(self, e: Expr, args: list[Text]) -> Text:
        text = literal(e.attr, e.dtype)
        return Text(text, UNARY if text.startswith("-") else POSTFIX)

    def _variable(self, e: Expr, args: list[Text]) -> Text:
        info = self.number(e.op, e.attr)
        return Text(info.text, POSTFIX, info.mask)

    def _load(self, e: Expr, args: list[Text]) -> Text:
        info = self.buffer(e.attr)
        text = Text(f"{info.text}[{self.place(info, e.args[0]).text if info.swizzle else args[0].text}]", POSTFIX)
        return self._from_bytes(text, e.dtype) if e.dtype.kind == "bool" and e.dtype.lanes > 1 else text

    def _vector_load(self, e: Expr, args: list[Text]) -> Text:
        memory = DTYPES["u8"].vector(e.dtype.lanes) if e.dtype.kind == "bool" else e.dtype
        info, form = self.buffer(e.attr), e.op if len(args) == 1 else ("load_first", "load_between")[len(args) - 2]
        text = self._fill(form, (self.place(info, e.args[0]), *args[1:]), memory, memory, buffer=info.text)
        return self._from_bytes(text, e.dtype) if e.dtype.kind == "bool" else text

    def _from_bytes(self, t: Text, dtype: DType) -> Text:
        return Text(f"({t.text} != 0)", POSTFIX, 8)

    def _broadcast(self, e: Expr, args: list[Text]) -> Text:
        if e.dtype.kind == "bool":
            return Text(args[0].text, args[0].level, ANY_MASK)
        return self._fill("broadcast", tuple(args), e.dtype, e.dtype)

    def _ramp(self, e: Expr, args: list[Text]) -> Text:
        return self._fill("ramp", (), e.dtype, e.dtype)

    def _extract(self, e: Expr, args: list[Text]) -> Text:
        x = args[0]
        if x.mask == ANY_MASK:
            return Text(x.text, x.level)
        text = f"{x.within(Need(POSTFIX))}[{e.attr}]"
        return Text(f"{text} != 0", 9) if x.mask else Text(text, POSTFIX)

    def _pick(self, e: Expr, args: list[Text]) -> Text:
        narrow = e.args[0].dtype.lanes
        if (
            e.args[0] is e.args[1]
            and e.dtype.lanes > narrow
            and e.attr == tuple(k % narrow for k in range(e.dtype.lanes))
            and "repeat" in self._spell
        ):
            return self._fill("repeat", (args[0],), e.dtype, e.args[0].dtype)
        return self._fill("pick", tuple(args), e.dtype, e.args[0].dtype, attr=", ".join(map(str, e.attr)))

    def _fold(self, e: Expr, args: list[Text]) -> Text:
        x, lanes = args[0], e.args[0].dtype.lanes
        if not x.mask:
            return self._fill("fold", (x,), e.dtype, e.args[0].dtype, attr=e.attr)
        if x.mask == ANY_MASK:
            return Text(x.text, x.level)
        combiner = {"max": "or", "min": "and", "mul": "and", "add": "or"}.get(e.attr, str(e.attr))
        masks = self._integers(x.mask, lanes)
        folded = self._fill("fold", (x,), masks.element, masks, attr=combiner)
        return Text(f"{folded.text} != 0", 9)

    def _where(self, e: Expr, args: list[Text]) -> Text:
        c, a, b = args
        if e.args[0].dtype.lanes == 1 or c.mask == ANY_MASK:  # one condition for all lanes: C's choice, which is lazy
            if e.dtype.kind == "bool" and e.dtype.lanes > 1:
                a, b = self._same_masks((a, b), e.dtype.lanes)
            result = self._fill("where", (c, a, b), e.dtype, e.dtype)
            return result._replace(mask=a.mask)
        if e.dtype.kind == "bool":
            a, b = self._same_masks((a, b), e.dtype.lanes)
            bits = a.mask if a.mask > 0 else self.mask_bits(c)
            a, b = self.as_mask(a, bits, e.dtype.lanes), self.as_mask(b, bits, e.dtype.lanes)
            masks = self._integers(bits, e.dtype.lanes)
            return self._fill("select", (self.as_mask(c, bits, e.dtype.lanes), a, b), masks, masks)._replace(mask=bits)
        c = self.as_mask(c, e.dtype.bits, e.dtype.lanes)
        guarded = e.args[1]
        if guarded.op == "gather" or (guarded.op == "vload" and len(guarded.args) == 1):
            # the load is not performed where the condition is false
            address = self.rendered(guarded.args[0])
            return self._fill(
                f"{'load' if guarded.op == 'vload' else 'gather'}_if", (address, c, b), e.dtype, e.dtype, buffer=self.buffer(guarded.attr).text
            )
        return self._fill("select", (c, a, b), e.dtype, e.dtype)

    def _cast(self, e: Expr, args: list[Text]) -> Text:
        if e.args[0].op == "ramp" and e.dtype.is_integer:
            return self._fill("ramp", (), e.dtype, e.dtype)
        return self._convert(args[0], e.args[0].dtype, e.dtype)

    def _convert(self, x: Text, source: DType, to: DType) -> Text:
        lanes = to.lanes
        if to.kind == "bool" and source.element.name in SMALL:
            return self._convert(self._convert(x, source, f32.vector(lanes)), f32.vector(lanes), to)
        if to.kind == "bool":
            bits = 0 if lanes == 1 else source.bits
            return self._fill("cast_to_bool", (x,), to, source)._replace(mask=bits)
        if source.kind == "bool":
            if to.element.name in SMALL:
                return self._convert(self._convert(x, source, f32.vector(lanes)), f32.vector(lanes), to)
            if lanes == 1:
                return self._fill("cast", (x,), to, source)
            mask = self.as_mask(x, to.bits, lanes)
            return self._fill("cast", (Text(f"-{mask.within(Need(UNARY))}", UNARY),), to, self._integers(to.bits, lanes))
        # f32 holds every small float exactly; on the way down f64 keeps its own road, so that nothing is rounded twice
        if source.element.name in SMALL and to.element is not f32:
            return self._convert(self._convert(x, source, f32.vector(lanes)), f32.vector(lanes), to)
        if to.element.name in SMALL and source.is_integer:
            # an integer that f32 would round is beyond the range of f16 and f8, but not beyond bf16's
            middle = DTYPES["f64"].vector(lanes) if source.bits >= 32 and to.element.name == "bf16" else f32.vector(lanes)
            return self._convert(self._convert(x, source, middle), middle, to)
        if source.element.name in SMALL or to.element.name in SMALL:
            return self._fill("cast_small", (x,), to, source)
        if source.is_float and to.is_integer:
            if lanes > 1 and to.bits > source.bits:
                # f64 holds every f32, and integers of its own width hold what is cut
                wide = DTYPES["f64"].vector(lanes)
                return self._convert(self._convert(x, source, wide), wide, to)
            return self._fill("cast_saturate", (x,), to, source)
        middle = _middle(source, to) if lanes > 1 else None
        if middle is not None:
            return self._convert(self._convert(x, source, middle), middle, to)
        return self._fill("cast", (x,), to, source)

    def _bitcast(self, e: Expr, args: list[Text]) -> Text:
        source, to = e.args[0].dtype, e.dtype
        if (
            source.lanes == to.lanes
            and self.types.spell(source.element) == self.types.spell(to.element)
            and source.kind != "bool"
            and to.kind != "bool"
        ):
            return args[0]
        x = self.as_bytes(args[0], source.lanes) if args[0].mask else args[0]
        if source.is_integer and to.is_integer and source.lanes == 1:  # a conversion in C, which compilers see through
            return self._fill("cast", (x,), to, source)
        result = self._fill("bitcast", (x,), DTYPES["u8"].vector(to.lanes) if to.kind == "bool" and to.lanes > 1 else to, source)
        return self._from_bytes(result, to) if to.kind == "bool" and to.lanes > 1 else result

    def _null(self, e: Expr, args: list[Text]) -> Text:
        return Text(f"{self.buffer(e.attr).text} == NULL", 9)

    def _to_line(self, e: Expr, args: list[Text]) -> Text:
        held = self.buffer(e.attr)
        return Text(f"(int64_t)((-(uintptr_t){held.text} & {LINE - 1}) / {held.dtype.bytes})", UNARY)

    def _overlap(self, e: Expr, args: list[Text]) -> Text:
        a, b = (self.buffer(name).text for name in e.attr)
        return Text(f"{self.helpers.need('overlap', DTYPES['u8'])}({a}, {args[0].text}, {b}, {args[1].text})", POSTFIX)

    def _instruction(self, e: Expr, args: list[Text]) -> Text:
        if e.attr not in self._instructions:
            raise CompilerBug("render", f"the runtime has no instruction `{e.attr}`")
        return self._put(self._instructions[e.attr]["spell"], tuple(args), e.dtype, e.args[0].dtype if e.args else e.dtype)

    def _scalar(self, e: Expr, operand: DType, args: list[Text]) -> Text:
        plain = self._is_plain(e)
        difference = self._difference(e, args) if plain and e.op == "add" else None
        return difference or self._fill(e.op, tuple(args), e.dtype, operand, index=plain)

    def _difference(self, e: Expr, args: list[Text]) -> Text | None:
        """`a + b * -1` as `a - b`, `i + -4` as `i - 4`, `a * -4 + b` as `b - a * 4`."""
        for kept, taken in ((0, 1), (1, 0)):
            negative = self._negative(e.args[taken])
            if negative is not None:
                return Text(f"{args[kept].within(Need(ADD))} - {negative}", ADD)
        return None

    def _negative(self, e: Expr) -> str | None:
        """The text of -e where e is a negative literal or a product with one."""
        if e.is_const and e.attr < 0:
            return str(-e.attr)
        if e.op == "mul" and e.args[1].is_const and e.args[1].attr < 0:
            count = -e.args[1].attr
            part = self.rendered(e.args[0]).within(Need(MUL))
            return part if count == 1 else f"{part} * {count}"
        return None

    def _is_plain(self, e: Expr) -> bool:
        """Whether C's own operator on (signed) integers means what the table says."""
        if e.op in ("floordiv", "mod"):
            divisor = e.args[1]
            return e.dtype.is_integer and divisor.is_const and divisor.attr > 0 and (e.dtype.kind == "uint" or self.is_natural(e.args[0]))
        if e.op == "shift_right":
            return e.args[1].is_const and 0 <= e.args[1].attr < e.dtype.bits
        return e.dtype.element is INDEX and e.op in ("add", "sub", "mul", "neg", "abs") and self.is_position(e)

    def _vector(self, e: Expr, operand: DType, args: list[Text]) -> Text:
        lanes = operand.lanes
        if operand.kind == "bool":
            args = list(self._same_masks(tuple(args), lanes))
            if args[0].mask == ANY_MASK:
                return self._fill(e.op, tuple(args), bool_, bool_)._replace(mask=ANY_MASK)
            masks = self._integers(args[0].mask, lanes)
            return self._fill(e.op, tuple(args), masks, masks, kind="bool")._replace(mask=args[0].mask)
        plain = self._is_plain(e)
        spelled = parse(self._choose(e.op, operand, plain))
        if operand.is_float and spelled.operator in ("+", "-", "*", "/"):
            # a scalar beside a vector stands for all lanes
            for k, a in enumerate(e.args):
                if a.op == "broadcast" and e.args[1 - k].op != "broadcast":
                    args[k] = self.rendered(a.args[0])
        result = self._fill(e.op, tuple(args), e.dtype if e.dtype.kind != "bool" else self._integers(operand.bits, lanes), operand, index=plain)
        return result._replace(mask=operand.bits) if e.dtype.kind == "bool" else result

    def _same_masks(self, args: tuple[Text, ...], lanes: int) -> tuple[Text, ...]:
        """All of one width: the widest; where no operand has a width, they stay scalars."""
        bits = max(a.mask for a in args)
        return args if bits == ANY_MASK else tuple(self.as_mask(a, bits, lanes) for a in args)

    # ---- statements

    def spelled(self, form: str) -> bool:
        return form in self._spelled

    def store(self, form: str, info: Info, address: Expr, value: Text, dtype: DType, *given: Expr | None) -> str:
        """The expression statement that writes a vector to memory: with what else the form is given, how many of its first lanes and whether past the caches."""
        if dtype.kind == "bool" and dtype.lanes > 1:
            value, dtype = self.as_bytes(value, dtype.lanes), DTYPES["u8"].vector(dtype.lanes)
        operands = (self.place(info, address), *[self.rendered(e) for e in given if e is not None], value)
        return self._fill(form, operands, dtype, dtype, buffer=info.text).text

    def multiply(self, s: Multiply) -> str:
        """The expression statement of an instruction on tiles."""
        if s.instruction not in self._instructions:
            raise CompilerBug("render", f"the runtime has no instruction `{s.instruction}`")
        places = [(s.buffer, s.address), s.left[:2], s.right[:2]]
        firsts = [Text(f"&{self.buffer(name).text}[{self.text(address)}]", UNARY) for name, address in places]
        if s.neighbours > 1:
            firsts[1] = Text(f"(const {self.types.spell(u32)} *){firsts[1].text}", UNARY)
        numbers = [self.rendered(e) for e in (s.row, *s.left[2:], *s.right[2:], s.steps)]
        sides = [Text(str(int(n)), POSTFIX) for n in (s.rows, s.columns, s.anew)]
        result = TILES[s.instruction].dot.result
        return self._put(self._instructions[s.instruction]["spell"], (*firsts, *numbers, *sides), result, result).text

    def matrix(self, s: Matrix) -> str:
        """The function of an instruction for warps, for its operands."""
        if s.instruction not in self._instructions:
            raise CompilerBug("render", f"the runtime has no instruction `{s.instruction}`")
        fragment = FRAGMENTS[s.instruction]
        if s.group:
            return self.helpers.need(f"{self._instructions[GROUPED]['spell'].removeprefix('@')}_{s.tiles[1] * fragment.columns}", fragment.operand)
        return self.helpers.need(self._instructions[s.instruction]["spell"].removeprefix("@"), fragment.operand)

    @staticmethod
    def _integers(bits: int, lanes: int) -> DType:
        return DTYPES[f"i{bits}"].vector(lanes)


def _middle(source: DType, to: DType) -> DType | None:
    """What a conversion of vectors of integers to floats goes through where those are more than twice as wide: gcc takes others lane by lane."""
    return DTYPES[f"i{to.bits}"].vector(to.lanes) if source.is_integer and to.is_float and source.bits * 2 < to.bits else None


_SPECIAL: dict[str, Callable[[Expressions, Expr, list[Text]], Text]] = {
    "const": Expressions._const, "size": Expressions._variable, "var": Expressions._variable, "load": Expressions._load,
    "vload": Expressions._vector_load, "gather": Expressions._vector_load, "broadcast": Expressions._broadcast, "ramp": Expressions._ramp,
    "extract": Expressions._extract, "fold": Expressions._fold, "pick": Expressions._pick, "where": Expressions._where, "cast": Expressions._cast, "bitcast": Expressions._bitcast,
    "null": Expressions._null, "overlap": Expressions._overlap, "to_line": Expressions._to_line,
}  # fmt: skip

__all__ = ["ANY", "Expressions"]
