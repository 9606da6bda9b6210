"""Repeat calls through the extension: the same results, errors and checks as the first, and ctypes where there is none."""

from __future__ import annotations

import sys
import threading

import luminal
import numpy as np
import pytest
from compilers import needs_cc
from luminal import calls
from luminal.function import Function

pytestmark = [needs_cc, pytest.mark.usefixtures("plain_c")]
needs_extension = pytest.mark.skipif(calls.extension() is None, reason="no Python.h, or no compiler for it")
ADD = "(composite addv ((A{f32}[M N] B{f32}[N]) -> (C{f32}[M N])) (return (+ A B)))"
TWO = "(composite two ((A{f32}[N]) -> (S{f32}[N] D{f32}[N])) (setf S (+ A 1)) (setf D (* A 2)))"


def warm(f: Function, *args: np.ndarray, **named: np.ndarray) -> None:
    """The call that makes the plan."""
    f(*args, **named)
    assert f._run is not None


@needs_extension
def test_repeat_calls() -> None:
    f = luminal.compile(ADD)
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32)
    warm(f, a, b)
    assert f._run((a, b), None) is not NotImplemented  # type: ignore[misc]
    first, second = f(a, b), f(a + 1, b)
    np.testing.assert_array_equal(first, a + 1)
    np.testing.assert_array_equal(second, a + 2)
    out = np.empty((3, 4), np.float32)
    warm(f, a, b, C=out)
    out[:] = 0
    assert f(a, b, C=out) is out
    np.testing.assert_array_equal(out, a + 1)
    warm(f, A=a, B=b)
    np.testing.assert_array_equal(f(B=b, A=a), a + 1)


@needs_extension
def test_what_is_not_like_the_first_call_goes_the_long_way() -> None:
    f = luminal.compile(ADD)
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32)
    warm(f, a, b)
    run = f._run
    assert run is not None
    for other in ((a[:, ::2], b[:2]), (a.T, b[:3]), (a.astype(np.float64), b), (a,), (a, b, a), (a, [1.0] * 4), (a.view(np.matrix), b)):
        assert run(other, None) is NotImplemented
    assert run((a, b), {"D": a}) is NotImplemented
    np.testing.assert_array_equal(f(np.asfortranarray(a), b), a + 1)
    with pytest.raises(TypeError, match="port A: expected dtype f32"):
        f(a.astype(np.float64), b)
    with pytest.raises(TypeError, match="missing B"):
        f(a)
    fixed = np.empty((3, 4), np.float32)
    warm(f, a, b, C=fixed)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="port C"):
        f(a, b, C=fixed)


@needs_extension
def test_error_codes_and_several_results() -> None:
    f = luminal.compile(ADD)
    a, b = np.zeros((1, 4), np.float32), np.zeros(4, np.float32)
    warm(f, a, b, C=np.empty((1, 4), np.float32))
    with pytest.raises(ValueError, match="addv: buffers overlap"):
        f(a, b, C=a)
    two = luminal.compile(TWO)
    x = np.arange(5, dtype=np.float32)
    warm(two, x)
    s, d = two(x)
    np.testing.assert_array_equal(s, x + 1)
    np.testing.assert_array_equal(d, x * 2)


@needs_extension
def test_no_reference_is_lost_or_kept() -> None:
    f = luminal.compile(ADD)
    a, b, out = np.zeros((3, 4), np.float32), np.zeros(4, np.float32), np.empty((3, 4), np.float32)
    warm(f, a, b)
    warm(f, a, b, C=out)
    before = [sys.getrefcount(x) for x in (a, b, out, a.dtype)]
    for _ in range(100):
        f(a, b)
        f(a, b, C=out)
    assert [sys.getrefcount(x) for x in (a, b, out, a.dtype)] == before
    mine, fresh = f(a, b), np.empty(3)
    assert sys.getrefcount(mine) == sys.getrefcount(fresh)  # nobody else's


@needs_extension
def test_calls_from_several_threads() -> None:
    f = luminal.compile(ADD)
    a, b = np.zeros((300, 40), np.float32), np.arange(40, dtype=np.float32)
    warm(f, a, b)
    found: list[bool] = []

    def work(k: int) -> None:
        found.extend(bool((f(a + k, b) == b + k).all()) for _ in range(50))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 200 and all(found)


def test_without_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "plans", lambda: None)
    f = luminal.compile(ADD)
    a, b = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(f(a, b), a + 1)
    assert f._run is None
