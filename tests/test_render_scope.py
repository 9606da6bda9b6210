"""What a name stands for while a source is rendered: what was rendered before is used again only as long as it would be rendered alike."""

from __future__ import annotations

from collections import Counter

import pytest
from luminal.compiler import Settings, compilations
from luminal.ir.dtypes import INDEX, f32
from luminal.ir.expr import Expr, add, load, mul, size, var
from luminal.runtimes import find
from luminal.runtimes.clang.driver import Driver
from luminal.runtimes.expressions import Expressions
from luminal.runtimes.render import Renderer
from luminal.runtimes.scope import Info, Scope
from luminal.runtimes.spelling import Text

HERE = Info("i", INDEX, position=True, natural=True)


@pytest.fixture
def expressions() -> Expressions:
    runtime = find("clang")
    assert isinstance(runtime, Driver)
    (compilation,) = compilations("relu", Settings())
    found = Renderer(runtime.description, runtime.folders, compilation.program).expressions
    found.scope = Scope()
    found.scope.declare(("buffer", "X"), Info("X", f32))
    found.scope.declare(("var", "i"), HERE)
    return found


def test_a_name_that_means_something_else_is_rendered_anew(expressions: Expressions) -> None:
    e = load("X", f32, add(mul(var("i"), size("N")), var("i")))
    expressions.scope.declare(("size", "N"), Info("N", INDEX, position=True, natural=True))
    assert expressions.text(e) == "X[i * N + i]"
    expressions.scope.forget(("var", "i"))
    expressions.scope.declare(("var", "i"), Info("i_2", INDEX, position=True, natural=True))
    assert expressions.text(e) == "X[i_2 * N + i_2]"
    expressions.scope.declare(("buffer", "X"), Info("X_1", f32))
    assert expressions.text(e) == "X_1[i_2 * N + i_2]"


def test_a_name_that_comes_back_as_it_was_changes_nothing(expressions: Expressions) -> None:
    before = expressions.scope.meaning
    expressions.scope.forget(("var", "i"))
    expressions.scope.declare(("var", "i"), HERE)
    assert expressions.scope.meaning == before


def test_sizes_and_variables_hide_each_other(expressions: Expressions) -> None:
    expressions.scope.declare(("size", "n"), Info("n_size", INDEX, position=True, natural=True))
    assert expressions.text(var("n")) == "n_size"
    expressions.scope.declare(("var", "n"), Info("n_var", INDEX))
    assert expressions.text(var("n")) == "n_var"
    assert expressions.text(size("n")) == "n_size"
    expressions.scope.forget(("var", "n"))
    assert expressions.text(var("n")) == "n_size"


def test_what_is_no_position_any_more_wraps(expressions: Expressions) -> None:
    e = add(var("i"), mul(var("i"), var("i")))
    plain = expressions.text(e)
    expressions.scope.declare(("var", "i"), Info("i", INDEX))
    assert plain == "i + i * i" and expressions.text(e) != plain


def test_other_spellings_see_the_same_names(expressions: Expressions) -> None:
    words = {"add": "{0} plus {1}"}
    e = add(var("i"), var("i"))
    assert expressions.respelled(words).text(e) == "i plus i"
    expressions.scope = Scope()
    expressions.scope.declare(("var", "i"), Info("k", INDEX, position=True))
    assert expressions.respelled(words).text(e) == "k plus k"
    assert expressions.text(e) == "k + k"


def test_no_expression_is_rendered_twice_in_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of gemm, where more than half of what is rendered was rendered before."""
    seen: Counter[tuple[Expressions, Scope, int, Expr]] = Counter()
    node = Expressions._node

    def counted(self: Expressions, e: Expr, done: dict[Expr, Text]) -> Text:
        seen[self, self._scope, self._scope.meaning, e] += 1
        return node(self, e, done)

    monkeypatch.setattr(Expressions, "_node", counted)
    (compilation,) = compilations("gemm", Settings(target="x86-64-v3"))
    assert compilation.rendered.source
    assert len(seen) > 300 and seen.most_common(1)[0][1] == 1
