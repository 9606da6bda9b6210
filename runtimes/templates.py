"""Compiled templates, kept beside the compile cache: Jinja's compiler takes a fifth of a new process from text to C.

What is kept is the code object of one template, as Python keeps those of modules (marshal); its key is the template and what compiled it.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

import jinja2
from jinja2 import BytecodeCache, Environment, Template
from jinja2.bccache import Bucket

from ..ir.errors import UsageError
from .keep import keep, kept

ROOM = "templates"


class Kept(BytecodeCache):
    """The templates that an environment loads by name."""

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = load(f"{bucket.key} {bucket.checksum}")

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
    code = load(text)
    if code is None:
        code = environment.compile(text)
        save(text, code)
    return Template.from_code(environment, code, environment.make_globals(None))


def _key(template: str) -> str:
    return f"{sys.version}\0{jinja2.__version__}\0{template}"


def load(template: str) -> CodeType | None:
    """What was saved of a template; None where that is nothing, or is damaged."""
    data = kept(ROOM, _key(template))
    return None if data is None else marshal.loads(data)


def save(template: str, code: CodeType) -> None:
    keep(ROOM, _key(template), marshal.dumps(code))
