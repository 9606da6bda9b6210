"""Every statement of a block, outer before inner: what is remembered of it is what a walk finds, and stays where nothing changes."""

from __future__ import annotations

from luminal.compiler import Settings, compilations
from luminal.ir import kernel, program
from luminal.ir.expr import ONE, ZERO, size, var
from luminal.ir.record import replace
from luminal.ir.text import show
from luminal.passes.lower import lower

N = size("N")


def walked(block: kernel.Block | program.Block) -> list[kernel.Stmt | program.Stmt]:
    found: list[kernel.Stmt | program.Stmt] = []
    for s in block:
        found.append(s)
        found += walked(getattr(s, "body", ()))
        found += walked(getattr(s, "orelse", ()))
    return found


def test_in_the_order_of_the_text() -> None:
    (compilation,) = compilations("attention", Settings(target="x86-64-v3"))
    module = compilation.module
    for again in range(2):  # the second time from memory
        for k in module.kernels:
            assert list(map(id, kernel.statements(k.body))) == list(map(id, walked(k.body))), again
        for f in lower(module, compilation.target, compilation.options).functions:
            assert list(map(id, program.statements(f.body))) == list(map(id, walked(f.body))), again


def test_a_new_statement_remembers_nothing_of_the_old() -> None:
    store = kernel.Store("X", (var("i"),), ONE)
    inner = kernel.Loop("j", ZERO, N, (store,))
    outer = kernel.Loop("i", ZERO, N, (inner, store))
    assert kernel.statements((outer,)) == [outer, inner, store, store]
    changed = replace(outer, body=(inner,))
    assert kernel.statements((changed,)) == [changed, inner, store]
    choice = kernel.If(N.lt(8), (store,), (inner,))
    assert kernel.statements((choice, replace(choice, orelse=()))) == [choice, store, inner, store, replace(choice, orelse=()), store]


def test_what_is_remembered_is_no_part_of_a_statement() -> None:
    fresh, asked = (kernel.Loop("i", ZERO, N, (kernel.Store("X", (var("i"),), ONE),)) for _ in range(2))
    kernel.statements((asked,))
    assert asked.within is not None
    assert fresh == asked
    assert hash(fresh) == hash(asked)
    assert repr(fresh) == repr(asked)
    given = kernel.Kernel("f", ("X",), (asked,))
    assert show(given) == show(kernel.Kernel("f", ("X",), (fresh,)))
