"""Compiled templates: Jinja's compiler takes a third of a new process from text to C.

Our own are modules beside the runtimes, if they were made when luminal was installed (`prepare.py`).  Any other is kept beside the compile cache: the code object of one template, as Python keeps
those of modules (marshal); its key is the template and what compiled it.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import jinja2
from jinja2 import BytecodeCache, Environment, Template
from jinja2.bccache import Bucket

from ..ir.errors import UsageError
from .keep import keep, kept

ROOM = "templates"
PREPARED = Path(__file__).parent / ".prepared"


class Kept(BytecodeCache):
    """The templates that an environment loads by name."""

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return f"{name}\0{filename}"

    def get_source_checksum(self, source: str) -> str:
        return source

    def load_bytecode(self, bucket: Bucket) -> None:
        name = bucket.key.partition("\0")[0]
        bucket.code = prepared(named(name, bucket.checksum)) or load(f"{bucket.key} {bucket.checksum}")

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            save(f"{bucket.key} {bucket.checksum}", bucket.code)


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """What Jinja finds wrong with a template is its author's mistake: UsageError that begins with `what`."""
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise UsageError(f"{what}, line {error.lineno}: {error.message}") from None
    except jinja2.TemplateError as error:
        raise UsageError(f"{what}: {error.message}") from None


def of_text(environment: Environment, text: str) -> Template:
    """The template that a text is."""
    code = prepared(text) or load(text)
    if code is None:
        code = environment.compile(text)
        save(text, code)
    return Template.from_code(environment, code, environment.make_globals(None))


def named(name: str, source: str) -> str:
    """What tells a template that has a name from others, wherever it lies: the name stands in its code."""
    return f"{name}\0{source}"


def module_of(template: str) -> str:
    """The file of what was prepared of a template; another version of Jinja compiles it anew."""
    digest = sha256(f"{jinja2.__version__}\0{template}".encode("utf-8", "surrogateescape"))
    return f"t{digest.hexdigest()[:32]}.py"


def prepared(template: str) -> CodeType | None:
    """What was made of a template when luminal was installed, if it was."""
    file = PREPARED / module_of(template)
    return SourceFileLoader(file.stem, str(file)).get_code(file.stem) if file.is_file() else None


def _key(template: str) -> str:
    return f"{sys.version}\0{jinja2.__version__}\0{template}"


def load(template: str) -> CodeType | None:
    """What was saved of a template; None where that is nothing, or is damaged."""
    data = kept(ROOM, _key(template))
    return None if data is None else marshal.loads(data)


def save(template: str, code: CodeType) -> None:
    keep(ROOM, _key(template), marshal.dumps(code))
