"""What proofs remember and what they look at first changes no answer."""

from __future__ import annotations

import pytest
from luminal.ir import polynomial as pl
from luminal.ir.bounds import Known, Range
from luminal.ir.conditions import BOOLEAN
from luminal.ir.expr import FALSE, TRUE, ZERO, Expr, call, const, minimum, size, var
from luminal.ir.graph import Size
from luminal.ir.simplify import assuming, prove, simplify

N, M, i, j = size("N"), size("M"), var("i"), var("j")


def known() -> Known:
    return Known({"N": Size("N"), "M": Size("M"), "i": Range(ZERO, N - 1), "j": Range(ZERO, minimum(M - i * 4, 4) - 1)})


def both(a: Expr, b: Expr) -> Expr:
    return call("bit_and", a, b)


@pytest.mark.parametrize(
    ("condition", "simplest"),
    [
        (both(i.lt(N), j.lt(M)), TRUE),
        (both(i.lt(8), i.lt(4)), i.lt(4)),
        (both(i.lt(4), i.lt(8)), i.lt(4)),
        (both(i.lt(4), const(8).lt(i)), FALSE),
        (both(i.lt(4), j.lt(2)), None),
        (both(both(i.lt(4), j.lt(2)), (i + j).lt(6)), both(i.lt(4), j.lt(2))),
    ],
)
def test_a_conjunction_loses_what_the_rest_implies(condition: Expr, simplest: Expr | None) -> None:
    found = simplify(condition, known())
    wanted = condition if simplest is None else simplest
    assert found is simplify(wanted, known())


@pytest.mark.pure
def test_no_scope_is_made_for_what_a_point_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [0]
    with_facts = Known.with_facts

    def counted(self: Known, *facts: object) -> Known:
        made[0] += 1
        return with_facts(self, *facts)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Known, "with_facts", counted)
    here = Known({"N": Size("N"), "M": Size("M")})
    simplify(both(N.lt(M), M.lt(3000)), here)
    assert made[0] == 0
    simplify(both(N.lt(8), N.lt(4)), here)
    assert made[0] > 0


@pytest.mark.pure
def test_conditions_that_share_no_name_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [0]
    with_facts = Known.with_facts

    def counted(self: Known, *facts: object) -> Known:
        asked[0] += 1
        return with_facts(self, *facts)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Known, "with_facts", counted)
    here = Known({"N": Size("N"), "M": Size("M"), "i": Range(ZERO, None), "j": Range(ZERO, None)})
    here.points.clear()  # which would refute it
    rows, columns = simplify((i * 8).lt(N), here), simplify((j * 8).lt(M), here)
    assert simplify(both(rows, columns), here) is both(rows, columns)
    assert asked[0] == 0
    assert simplify(both(rows, (i * 4).lt(N)), here) is rows
    assert asked[0] > 0


def test_what_bounds_a_name_speaks_of_it() -> None:
    here = Known({"N": Size("N"), "k": Range(ZERO, None), "i": Range(var("k"), var("k") + 2)})
    assert here.reached(frozenset({"i"})) == {"i", "k"}
    assert simplify(both(i.lt(9), var("k").lt(4)), here) is var("k").le(3)


@pytest.mark.parametrize("op", ["bit_and", "bit_or"])
def test_a_chain_is_compared_once(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    plain = BOOLEAN[op]

    def counted(args: tuple[Expr, ...], here: Known) -> Expr:
        taken.append(len(args))
        return plain(args, here)

    monkeypatch.setitem(BOOLEAN, op, counted)
    conditions = [var(name).le(7) for name in "abcd"]
    chain = conditions[0]
    for c in conditions[1:]:
        chain = call(op, chain, c)
    assert simplify(chain, {}) is chain
    assert taken == [4]


def test_a_second_proof_of_the_same_steps_is_short() -> None:
    here = known()
    goal = pl.poly(M - i * 4 - j - 1)
    assert here.nonnegative(goal)
    spent = here._fuel
    here._proofs.clear()
    assert here.nonnegative(goal)
    assert here._fuel > spent


def test_a_product_of_sizes_is_asked_by_what_holds_all_of_it() -> None:
    here = Known({"N": Size("N"), "M": Size("M"), "K": Size("K")})
    inside = assuming(here, const(1000).le(N * M))
    (which,) = inside.inner
    held, other = (N, M) if which == "N" else (M, N)
    assert inside.home(held // 16) is inside
    assert inside.home(other // 16) is here
    assert simplify(other // 16, inside) in here.memo.values()
    assert prove(const(999).lt(N * M), inside)  # the whole product is
    assert prove(const(1000).le(N * M), inside.with_ranges({"i": Range(ZERO, other - 1)}, within=inside))
    assert not prove(const(1000).le(N * M), here)
    more = assuming(here, both(const(1000).le(N * M), M.lt(8)))  # the other condition says more
    assert more.home(N // 16) is more.home(M // 16) is more and more.home(size("K") // 16) is here
    longer = assuming(here, const(8).le(M))
    assert longer.home(M // 16) is longer and longer.home(N // 16) is here
