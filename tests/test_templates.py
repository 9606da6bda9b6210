"""Compiled templates are kept between processes, and never trusted blindly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from luminal.runtimes import keep, prepare, templates
from luminal.runtimes.helpers import part
from luminal.runtimes.registry import written_by_author
from luminal.runtimes.render import environment

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


@pytest.mark.parametrize(
    ("of", "names"), [(("clang",), ("source.c.j2", "0/statements.j2")), (("cuda", "clang"), ("source.cu.j2", "1/statements.j2"))]
)
def test_what_was_prepared_is_neither_compiled_nor_kept(folder, tmp_path, monkeypatch, of, names):
    """Helpers by their text and templates by their names, for whatever runtime looks for them; what was changed since is compiled as ever."""
    monkeypatch.setattr(templates, "PREPARED", tmp_path / ".prepared")
    prepare.prepare(templates.PREPARED)
    folders = tuple(Path(prepare.__file__).parent / name for name in of)
    made, text = environment.__wrapped__(folders), part(folders, "floordiv")
    assert text is not None
    with monkeypatch.context() as inside:
        inside.setattr(jinja2.Environment, "compile", lambda *_, **__: pytest.fail("compiled again"))
        assert templates.of_text(made, text).make_module({"need": None, "vector": None}).floordiv.arguments == ("t",)
        for name in names:
            assert made.get_template(name).name == name.split("/")[-1]
    assert not folder.exists()
    assert templates.of_text(made, "{{ 2 }}" + text).render().startswith("2")
    assert len(list(folder.iterdir())) == 1


def test_a_prepared_template_is_not_to_blame(tmp_path):
    """What our helper raises for what the template of somebody else's runtime gave it is that template's mistake."""
    (tmp_path / "runtime.toml").write_text("")
    ours: dict[str, Any] = {}
    exec(compile("def helper(t):\n    return t + 1", str(templates.PREPARED / "t0.py"), "exec"), ours)
    with pytest.raises(TypeError) as raised:
        exec(compile("\nhelper('x')", str(tmp_path / "statements.j2"), "exec"), ours)
    assert written_by_author(raised.value) == f"{tmp_path / 'statements.j2'}, line 2"
