"""Every code has an example that really gives it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from luminal.cli.main import cli
from luminal.dsl.codes import CODES
from luminal.dsl.examples import EXAMPLES, said_of
from luminal.ir.errors import UsageError


def test_every_code_has_an_example() -> None:
    assert list(EXAMPLES) == list(CODES)


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_gives_its_code_and_no_other(code: str) -> None:
    assert {d.code for d in said_of(EXAMPLES[code])} == {code}


def test_explain_shows_title_example_and_what_is_said_of_it() -> None:
    done = CliRunner().invoke(cli, ["explain", "e0203"])
    assert done.output.startswith("E0203: an unknown operator or composite\n")
    assert "(return (matmull A B))" in done.output and "example.lisp:2:12: error[E0203]" in done.output
    hostile = CliRunner().invoke(cli, ["explain", "E0107"]).output
    assert "\0" not in hostile and "error[E0107]" in hostile


def test_without_a_code_all_are_listed_and_an_unknown_one_is_a_usage_error() -> None:
    assert [line[:5] for line in CliRunner().invoke(cli, ["explain"]).output.splitlines()] == list(CODES)
    with pytest.raises(UsageError, match="E0203"):
        CliRunner().invoke(cli, ["explain", "E203"], catch_exceptions=False)


def test_explain_as_json() -> None:
    told = json.loads(CliRunner().invoke(cli, ["explain", "W0702", "--json"]).output)
    assert told["code"] == "W0702" and "warning[W0702]" in told["said"]
