"""The step that maps a nest on an instruction for tiles (`ir/instructions.py`): `tensorize`."""

from __future__ import annotations

from collections.abc import Mapping

from ....ir.expr import ZERO, Expr
from ....ir.instructions import MOST_TILES, SIDE, TILES
from ....ir.kernel import Alloc, Buffer, Kernel, Loop, Store, map_block
from ....ir.record import replace
from ...lower.words import parts
from ..affine import constant_extent, same_position, stride
from ..tree import Facts, StepError, find, local_buffers, nest, replace_loop


def tensorize(kernel: Kernel, facts: Facts, axis: str, instruction: str) -> Kernel:
    """Multiply the tiles of a nest by one instruction.

        for i in 0 .. 32:                                       for i in 0 .. 32 tile:
          for j in 0 .. 32:                                       for j in 0 .. 32 tile:
            for p in 0 .. 16 reduce:                      →         for p in 0 .. 16 tile:
              acc[i, j] add= ins.dot2_bf16:f32(0.0:f32,               acc[i, j] add= ins.dot2_bf16:f32(…)
                A.packed[q, i, p], B.packed[q, p, j])

    `axis` is the outermost, over the rows of the tile: 16 or 32 of them, and as many columns, by 16 words along the reduction.  A loop directly around that goes on along the reduction becomes a part of
    the instruction, and the sums stay in its registers; the buffer that they come from and go to is memory (`stack`) from here on.  Operands are words that have been staged: rows of the left
    one are consecutive along the reduction, rows of the right one along the columns.  Elements of a local buffer that are put together along its rows are words that lie there: the left operand may be those.
    """
    row = TILES.get(instruction)
    if row is None:
        raise StepError(f"tensorize: no instruction `{instruction}`; there are {', '.join(TILES)}")
    rows = find(kernel, axis)
    columns = rows.body[0] if len(rows.body) == 1 else None
    words = columns.body[0] if isinstance(columns, Loop) and len(columns.body) == 1 else None
    s = words.body[0] if isinstance(words, Loop) and len(words.body) == 1 else None
    if not isinstance(columns, Loop) or not isinstance(words, Loop) or not isinstance(s, Store) or s.combiner != "add" or s.value.op != "ins":
        raise StepError(f"tensorize: `{axis}` is no nest of three loops around a sum of products of neighbours")
    if s.value.attr != row.dot.name:
        raise StepError(f"tensorize: {instruction} multiplies by {row.dot.name}, here is {s.value.attr}")
    sides = (SIDE, MOST_TILES * SIDE)
    loops = nest(kernel, (rows.axis, columns.axis, words.axis))
    if any(x.start is not ZERO for x in loops) or constant_extent(words) != SIDE or any(constant_extent(x) not in sides for x in (rows, columns)):
        raise StepError(f"tensorize: a tile has {' or '.join(map(str, sides))} rows and columns, and {SIDE} words")
    local = local_buffers(kernel)
    _, left, right = s.value.args
    if rows.axis in right.names:
        left, right = right, left
    turned = left is s.value.args[2]
    lying = elements(left, local) if row.operands[0] is row.dot.left else None
    if any(e.op != "load" or e.attr not in local for e in (lying or left, right)) or s.buffer not in local or len(s.index) < 2:
        raise StepError("tensorize: operands and sums are no local buffers of words and of sums")

    def moves(index: tuple[Expr, ...], other: str, inner: str, step: int = 1) -> bool:
        """Whether a row is consecutive along `inner`, in steps of so many elements, and nothing moves with `other`."""
        return stride(index[-1], inner) == step and not any(inner in e.names for e in index[:-1]) and not any(other in e.names for e in index)

    if turned is not row.turned and row.dot.left is not row.dot.right:
        raise StepError(f"tensorize: rows of {instruction} are {row.operands[0]}")
    if (
        not (moves(lying.args, columns.axis, words.axis, row.dot.neighbours) if lying else moves(left.args, columns.axis, words.axis))
        or not moves(right.args, rows.axis, columns.axis)
        or not moves(s.index, words.axis, columns.axis)
    ):
        raise StepError("tensorize: rows of the left operand are not consecutive along the reduction, or others not along the columns")
    tile: tuple[Loop, ...] = (replace(words, kind="tile"),)
    for x in (columns, rows):
        tile = (replace(x, kind="tile", body=tile),)
    changed = replace_loop(kernel, axis, lambda _: tile)
    memory = {s.buffer: replace(local[s.buffer], space="stack", align=64)}
    if lying is not None:
        memory[lying.attr] = replace(local[lying.attr], align=64)
    return changed.with_body(
        map_block(changed.body, lambda t: (Alloc(memory[t.buffer.name]),) if isinstance(t, Alloc) and t.buffer.name in memory else None)
    )


def elements(word: Expr, local: Mapping[str, Buffer]) -> Expr | None:
    """The first of the elements that a word puts together, where they are neighbours in a row of whole words of a local buffer; None where they are not."""
    first, *others = parts(word) or (word,)
    held = local.get(first.attr) if others else None
    if held is None or not held.shape[-1].is_const or held.shape[-1].attr % (len(others) + 1):
        return None
    beside = all(x.args[:-1] == first.args[:-1] and same_position(x.args[-1], first.args[-1] + k) for k, x in enumerate(others, 1))
    return first if beside else None
