"""A bound on the time of what a test run is judged by, and what is said of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from luminal.cli.main import cli
from luminal.search import limit, trial
from luminal.search.limit import Late, limited

ADD = "(composite add ((A{f32}[M N] B{f32}[M N]) -> (C{f32}[M N])) (return (+ A B)))"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a system without alarms")
def test_what_takes_too_long_is_left() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Late), limited(0.01):
        while True:
            pass
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with limited(100.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_elsewhere_than_in_the_main_thread_nothing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit.signal, "setitimer", lambda *_: pytest.fail("an alarm for the main thread"), raising=False)
    done: list[bool] = []

    def work() -> None:
        with limited(0.01):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_reference_that_takes_too_long_is_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    @contextmanager
    def none_left(seconds: float) -> Iterator[None]:
        asked.append(seconds)
        raise Late
        yield

    monkeypatch.setattr(trial, "limited", none_left)
    done = CliRunner().invoke(
        cli,
        ["compile", "-", "--runtime", "reference", "--test=M=2, N=3", "--timeout", "77"],
        input=ADD,
        catch_exceptions=False,
        standalone_mode=False,
    )
    assert (done.return_value, asked) == (124, [77.0])
    assert "TIMEOUT: what it is judged by was not computed within 77 s" in done.stdout
