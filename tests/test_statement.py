"""Statements behave as records do, though their classes are written out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from luminal import compiled
from luminal.ir import kernel_body, program_body
from luminal.ir.dtypes import f32
from luminal.ir.errors import Span
from luminal.ir.expr import ONE, ZERO, Expr, floordiv, var
from luminal.ir.kernel import Buffer, If, Kernel, Loop, Region, Store
from luminal.ir.operator_kinds import DIVIDES
from luminal.ir.places import block_of, homes_in, path_of
from luminal.ir.program import For
from luminal.ir.record import replace
from luminal.ir.statement import Around, Statement, Structure, kinds_in, map_block, same, statements, with_blocks, with_body

BODIES = [Path(compiled.ROOT) / "ir" / f"{level}_body.py" for level in ("kernel", "program")]
CLASSES = [(file.stem, s) for file in BODIES for s in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(s, ast.ClassDef)]


@pytest.mark.parametrize(("module", "found"), [pytest.param(m, s, id=f"{m}-{s.name}") for m, s in CLASSES])
def test_a_statement_is_made_of_what_its_class_lists(module: str, found: ast.ClassDef) -> None:
    """So that `replace`, `==` and patterns see every part."""
    cls = getattr({"kernel_body": kernel_body, "program_body": program_body}[module], found.name)
    makers = [s for s in found.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"]
    parameters = [a.arg for maker in makers for a in maker.args.args[1:]]
    assert issubclass(cls, Structure) and list(cls.__match_args__) == parameters
    assigned = [
        s for maker in makers for s in maker.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Attribute)
    ]  # the others are what it remembers
    assert [ast.unparse(s.targets[0]) for s in assigned] == [f"self.{p}" for p in parameters]
    names = [{n.id for n in ast.walk(s.value) if isinstance(n, ast.Name)} for s in assigned]
    assert all(
        n <= {p, "FALSE"} and p in n for n, p in zip(names, parameters, strict=True)
    )  # each of its own parameter: a condition that never holds is none


@pytest.mark.parametrize(
    "s",
    [
        program_body.Define("a", f32, ONE),
        program_body.Define("a", f32),
        program_body.Assign("a", ONE),
        program_body.Array("a", f32, 4),
        program_body.Scratch("a", f32, ONE),
        program_body.StoreTo("a", ZERO, ONE),
        program_body.StoreTo("a", ZERO, ONE, var("c"), var("n")),
        For("i", ZERO, ONE, (program_body.Assign("a", var("x")),)),
        For("i", ZERO, ONE, (), ONE, "parallel", var("c")),
        program_body.If(var("c"), (program_body.Assign("a", ONE),)),
        program_body.While(var("c"), ()),
        program_body.Region((), var("c")),
        program_body.Region(()),
        program_body.Barrier(),
        program_body.Call("f", (ONE, "a", ZERO)),
        program_body.Fail(1),
        program_body.Prefetch("a", ZERO),
        program_body.Multiply("m", 16, 16, "a", ZERO, ONE, ("b", ZERO, ONE, ONE), ("c", ZERO, ONE, ONE), var("n")),
        program_body.Matrix("m", (1, 1, 1), "a", ZERO, (1, 1, 1, 1), ("b", ONE, 1, 1, 1), ("c", ONE, 1, 1, 1)),
        kernel_body.Let("a", ONE),
        kernel_body.Alloc(Buffer("a", f32, (ONE, var("n")))),
        Store("a", (ZERO, ONE), var("x")),
        Store("a", (), var("x"), stream=var("c")),
        Loop("i", ZERO, var("n"), (Store("a", (), var("x")),)),
        If(var("c"), (Store("a", (), ONE),)),
        kernel_body.While(var("c"), (), ONE),
        Region(()),
        kernel_body.Barrier(),
        kernel_body.Check(var("c"), 1),
        kernel_body.Prefetch("a", (ZERO, ONE), var("n")),
    ],
    ids=repr,
)
def test_a_statement_names_every_expression_that_it_holds_itself(s: kernel_body.Stmt | program_body.Stmt) -> None:
    def inside(part: object) -> list[Expr]:
        if isinstance(part, Buffer):
            part = part.shape
        return [part] if isinstance(part, Expr) else [e for x in part for e in inside(x)] if isinstance(part, tuple) else []

    held = {e for name in type(s).__match_args__ if name not in ("body", "orelse") for e in inside(getattr(s, name))}
    assert set(s.expressions()) == held


def test_a_walk_that_changes_nothing_is_seen_by_its_statements() -> None:
    block = (Store("y", (ZERO,), ONE), Store("y", (ONE,), ONE))
    assert same(list(block), block) and same([], ())
    assert not same([block[0], replace(block[1])], block), "equal is not the same"
    assert not same([block[0]], block) and not same([*block, block[0]], block)


def test_statements_are_equal_wherever_they_stand() -> None:
    here = Store("a", (), ZERO, span=Span("f", 1, 2))
    there = Store("a", (), ZERO)
    assert here == there and hash(here) == hash(there) and len({here, there}) == 1
    assert here != replace(there, value=var("x")) and replace(here, buffer="b").span is here.span
    assert Loop("i", ZERO, var("n"), (here,)) == Loop("i", ZERO, var("n"), (there,)) != Loop("i", ZERO, var("n"), (here,), "parallel")


def test_what_holds_the_same_is_another_statement() -> None:
    assert Region((Store("a", (), ZERO),)) != If(ZERO, (Store("a", (), ZERO),))
    assert kernel_body.Region(()) != program_body.Region(())
    assert kernel_body.Barrier() == kernel_body.Barrier() != program_body.Barrier()


def test_what_a_statement_remembers_is_no_part_of_it() -> None:
    one, other = (For("i", ZERO, var("n"), (program_body.Fail(1), program_body.Barrier())) for _ in range(2))
    assert statements((one,)) == [one, *one.body]
    assert one == other and replace(one, body=()).within is None and one.within
    assert repr(one).startswith("For(var='i', start=0, stop=n, body=(Fail(code=1), Barrier(later=0)), step=1")


def test_a_statement_remembers_the_kinds_of_operators_in_it() -> None:
    inner = For("j", ZERO, var("n"), (program_body.Assign("x", floordiv(var("i"), var("n"))),))
    outer = For("i", ZERO, var("n"), (program_body.If(var("c"), (), (inner,)),))
    assert kinds_in((outer,)) == DIVIDES == outer.kinds == inner.kinds
    assert replace(outer, body=()).kinds == -1 and kinds_in((replace(outer, body=()),)) == 0


def test_a_statement_around_others_remembers_its_hash() -> None:
    one, other = (Loop("i", ZERO, var("n"), (Loop("j", ZERO, var("n"), (Store("a", (var("j"),), ZERO),)),)) for _ in range(2))
    assert one.hashed == 0 and hash(one) == hash(other) == one.hashed == other.hashed != 0
    inner = one.body[0]
    assert isinstance(inner, Loop) and inner.hashed == hash(inner) != 0, "the hash of what is around it asked"
    assert replace(one, kind="parallel").hashed == 0 and hash(replace(one, kind="parallel")) != hash(one)


SOME, OTHER = Store("a", (), ZERO), program_body.Fail(1)


@pytest.mark.parametrize(
    ("s", "blocks"),
    [
        (Loop("i", ONE, var("n"), (SOME,), "parallel", var("k"), Span("f", 1, 2)), 1),
        (If(var("c"), (SOME,), (SOME, SOME)), 2),
        (kernel_body.While(var("c"), (SOME,), ONE), 1),
        (Region((SOME,)), 1),
        (For("i", ONE, var("n"), (OTHER,), var("k"), "parallel", var("c"), "e", 2), 1),
        (program_body.If(var("c"), (OTHER,), (OTHER, OTHER)), 2),
        (program_body.While(var("c"), (OTHER,)), 1),
        (program_body.Region((OTHER,), var("c")), 1),
    ],
    ids=repr,
)
def test_a_statement_stands_around_other_blocks(s: Around, blocks: int) -> None:
    assert len(s.blocks()) == blocks and s.around(*s.blocks()) == s
    assert with_blocks(s, lambda b: b) is s and with_body(s, s.body) is s and map_block((s,), lambda t: None)[0] is s
    emptied = with_blocks(s, lambda b: ())
    assert emptied.blocks() == ((),) * blocks and emptied == s.around(()) == map_block((s,), lambda t: None if t is not s.body[0] else ())[0]
    assert replace(emptied, **{name: getattr(s, name) for name in ("body", "orelse")[:blocks]}) == s, "the rest stays"


def test_parts_of_a_statement_change_and_its_blocks_are_left_to_others() -> None:
    inner = Store("a", (), var("x"))
    choice = If(var("c"), (inner,), (SOME, inner))
    changed = kernel_body.with_parts(choice, lambda e: var("d") if e is var("c") else ONE, lambda b: b[-1:])
    assert changed == If(var("d"), (inner,), (inner,))
    assert kernel_body.with_parts(inner, lambda e: ONE, lambda b: ()) == Store("a", (), ONE)


def test_the_block_that_a_path_ends_in() -> None:
    there, loop = Store("b", (), ONE), Loop("i", ZERO, var("n"), ())
    choice = If(var("c"), (there,), (SOME, loop))
    kernel = Kernel("k", ("a", "b"), (SOME, choice))
    assert block_of(kernel, (choice,)) is kernel.body and block_of(kernel, path_of(kernel, "i")) is choice.orelse


@pytest.mark.parametrize("s", [SOME, OTHER], ids=repr)
def test_a_statement_that_holds_none_stays(s: Statement) -> None:
    assert s.blocks() == () and with_blocks(s, lambda b: ()) is s and statements((s,)) == [s]


def test_kernels_and_buffers_are_structures_too() -> None:
    here, there = (Kernel("k", ("a",), (Loop("i", ZERO, var("n"), ()),)) for _ in range(2))
    assert here == there and hash(here) == hash(there) and here != replace(there, notes=("why",))
    assert set(homes_in(here)) == {"i"} and here == there and here.with_schedule(("unroll i",)).homes is here.homes
    assert replace(here, body=()).homes is None and here.with_body(()).homes is None, "what stands elsewhere is looked up again"
    a = Buffer("a", f32, (var("n"), var("m")))
    assert a.steps == (var("m"), ONE) and a == Buffer("a", f32, (var("n"), var("m"))) != replace(a, strides=(ONE, var("n")))


def test_replace_knows_what_a_structure_is_made_of() -> None:
    with pytest.raises(TypeError, match="Let is made of name, value"):
        replace(kernel_body.Let("x", ZERO), nothing=1)
