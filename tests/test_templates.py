"""Compiled templates are kept between processes, and never trusted blindly."""

from __future__ import annotations

import pytest
from luminal.runtimes import keep, templates

jinja2 = pytest.importorskip("jinja2")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(keep, "folder", lambda room: tmp_path / room)
    return tmp_path / "templates"


def rendered(text: str) -> str:
    return templates.of_text(jinja2.Environment(), text).render(x=3)


def test_a_second_environment_compiles_nothing(folder, monkeypatch):
    assert rendered("{{ x + 1 }}") == "4"
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *_, **__: pytest.fail("compiled again"))
    assert rendered("{{ x + 1 }}") == "4"


def test_templates_with_names_are_kept_by_their_text(folder, tmp_path):
    def named(text: str) -> str:
        (tmp_path / "t.j2").write_text(text)
        environment = jinja2.Environment(loader=jinja2.FileSystemLoader(tmp_path), bytecode_cache=templates.Kept())
        return environment.get_template("t.j2").render(x=3)

    assert named("{{ x }}") == named("{{ x }}") == "3"
    assert named("{{ x * 2 }}") == "6"
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-3], lambda data: data[:40] + b"\xff" + data[41:]])
def test_a_damaged_entry_is_made_anew(folder, damage):
    assert rendered("{{ x - 1 }}") == "2"
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert rendered("{{ x - 1 }}") == "2"
    assert entry.read_bytes() == whole


def test_where_nothing_can_be_kept_templates_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(keep, "folder", lambda room: tmp_path / "file" / room)
    assert rendered("{{ x }}") == "3"
