"""Whether expressions are well typed: every node against its row of the table or its form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from ..dtypes import INDEX, DType, bf16, bool_, f32, u32
from ..expr import Expr
from ..instructions import EXP_INSIDE, EXP_NEAR, INSTRUCTIONS, LANE_BY_LANE, QUOTIENT, ROUNDED
from ..primops import COMBINERS, OPS, Op, accepts, result_of
from ..walks import postorder

VECTOR_FORMS = ("broadcast", "ramp", "extract", "vload", "gather", "fold", "zip_low", "zip_high", "unzip", "pick", "null", "overlap")


def mistyped(roots: Iterable[Expr]) -> Iterator[str]:
    """What is wrong with the dtypes of these expressions, innermost first."""
    for root in roots:
        if root.typed:
            continue
        for node in postorder(root):
            if not node.typed:
                found = _wrong(node)
                if found:
                    yield f"{node!r}: {found}"
                else:
                    node.typed = True


def operands_of(row: Op, dtypes: tuple[DType, ...], result: DType) -> str:
    """What is wrong with an operator on operands of these dtypes; "" where nothing is."""
    if len(dtypes) != row.arity:
        return f"{row.name} takes {row.arity} operands, has {len(dtypes)}"
    values = dtypes[1:] if row.name == "where" else dtypes
    if any(d is not values[0] for d in values):
        return f"{row.name} on " + " and ".join(d.name for d in values)
    if row.name == "where" and dtypes[0] not in (bool_, bool_.vector(values[0].lanes)):
        return f"the condition is {dtypes[0]}"
    if not accepts(row, values[0]):
        return f"{row.name} takes {row.accepts}, has {values[0]}"
    if row.result == "to":
        if row.name == "bitcast":
            sizes = [d.bits * d.lanes for d in (values[0], result)]
            return "" if sizes[0] == sizes[1] and values[0].lanes % result.lanes == 0 else f"bitcast from {sizes[0]} to {sizes[1]} bits"
        if result.lanes != values[0].lanes:
            return f"{row.name} from {values[0]} to {result}"
        return ""
    expected = result_of(row, dtypes)
    return "" if result is expected else f"{row.name} gives {expected}, is {result}"


@lru_cache(maxsize=4096)
def _operands_of(op: str, dtypes: tuple[DType, ...], result: DType) -> str:
    """The same by the operator's name: a program has thousands of operators on a few dozen sets of dtypes."""
    return operands_of(OPS[op], dtypes, result)


def literal_of(value: object, d: DType) -> str:
    """What is wrong with a literal of this dtype."""
    kind = bool if d.kind == "bool" else float if d.is_inexact else int
    if type(value) is not kind:
        return f"the literal {value!r} of {d} is a Python {type(value).__name__}"
    if d.is_integer and not d.min <= value <= d.max:  # type: ignore[operator]
        return f"the literal {value} is outside {d}"
    return ""


def _wrong(node: Expr) -> str:
    op, d = node.op, node.dtype
    if op in OPS:
        return _operands_of(op, tuple([a.dtype for a in node.args]), d)
    if op == "const":
        return literal_of(node.attr, d)
    if op in ("axis", "size", "to_line"):
        return "" if d is INDEX else f"a position is i64, not {d}"
    if op in ("first", "last", "null"):
        return "" if d is bool_ else f"a condition is bool, not {d}"
    if op in ("load", "vload", "gather"):
        lanes = d.lanes if op == "gather" else 1
        bad = [a for a in node.args if a.dtype is not INDEX.vector(lanes)]
        return f"the index {bad[0]!r} is {bad[0].dtype}" if bad else ""
    if op == "fold" and node.attr not in COMBINERS:
        return f"there is no combiner {node.attr}"
    if op in ("fold", "extract") and (node.args[0].dtype.lanes == 1 or d is not node.args[0].dtype.element):
        return f"{op} of {node.args[0].dtype} to {d}"
    if op == "extract" and not 0 <= node.attr < node.args[0].dtype.lanes:
        return f"there is no lane {node.attr}"
    if op == "broadcast" and (node.args[0].dtype.lanes != 1 or d.element is not node.args[0].dtype):
        return f"{node.args[0].dtype} spread to {d}"
    if op in ("zip_low", "zip_high", "unzip") and (d.lanes % 2 or any(a.dtype is not d for a in node.args)):
        return f"{op} of " + " and ".join(a.dtype.name for a in node.args) + f" to {d}"
    if op == "pick":
        a, b = (x.dtype for x in node.args)
        if a is not b or d.element is not a.element or d.lanes != len(node.attr) or not all(0 <= k < 2 * a.lanes for k in node.attr):
            return f"pick of lanes {node.attr} of {a} and {b} to {d}"
    if op == "ins" and node.attr in INSTRUCTIONS:
        row, words = INSTRUCTIONS[node.attr], u32.vector(d.lanes)
        return (
            ""
            if d.element is row.result and [a.dtype for a in node.args] == [d, words, words]
            else f"{row.name} of {', '.join(a.dtype.name for a in node.args)} to {d}"
        )
    if op == "ins" and node.attr == QUOTIENT.name:
        return "" if d.is_float and [a.dtype for a in node.args] == [d] * 3 else f"quotient of {', '.join(a.dtype.name for a in node.args)} to {d}"
    if op == "ins" and node.attr in LANE_BY_LANE:
        given = [f32.vector(d.lanes)] * (1 if node.attr in (ROUNDED.name, EXP_INSIDE.name, EXP_NEAR.name) else 2)
        wanted = bf16 if node.attr == ROUNDED.name else f32
        return (
            ""
            if d.element is wanted and [a.dtype for a in node.args] == given
            else f"{node.attr} of {', '.join(a.dtype.name for a in node.args)} to {d}"
        )
    if op == "ramp" and d.element is not INDEX:
        return f"a ramp of {d}"
    return "" if op in ("var", "ins") or op in VECTOR_FORMS else f"there is no operator {op}"
