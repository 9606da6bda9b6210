"""Compiled templates, kept beside the compile cache: Jinja's compiler takes a fifth of a new process from text to C.

An entry is the code object of one template, as Python keeps those of modules (marshal), behind the sha256 of its bytes; its name is the sha256 of the template and of what
compiled it.  One that does not match is made anew, and where the folder cannot be written nothing is kept.
"""

from __future__ import annotations

import marshal
import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from types import CodeType

import jinja2
from jinja2 import BytecodeCache, Environment, Template
from jinja2.bccache import Bucket

DIGEST = 32  # bytes of a sha256


class Kept(BytecodeCache):
    """The templates that an environment loads by name."""

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = load(f"{bucket.key} {bucket.checksum}")

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            save(f"{bucket.key} {bucket.checksum}", bucket.code)


def of_text(environment: Environment, text: str) -> Template:
    """The template that a text is."""
    code = load(text)
    if code is None:
        code = environment.compile(text)
        save(text, code)
    return Template.from_code(environment, code, environment.make_globals(None))


def folder() -> Path:
    """Where compiled templates are kept: beside the products, see `search/cache.py`."""
    from platformdirs import user_cache_path

    return user_cache_path("luminal", appauthor=False) / "templates"


def _place(key: str) -> Path:
    return folder() / sha256(f"{sys.version}\0{jinja2.__version__}\0{key}".encode()).hexdigest()


def load(key: str) -> CodeType | None:
    """What was saved under a key; None where that is nothing, or is damaged."""
    try:
        found = _place(key).read_bytes()
    except OSError:
        return None
    return marshal.loads(found[DIGEST:]) if sha256(found[DIGEST:]).digest() == found[:DIGEST] else None


def save(key: str, code: CodeType) -> None:
    """Whole or not at all: others may be reading."""
    data = marshal.dumps(code)
    place = _place(key)
    if not place.is_absolute():  # a user without a home folder
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".", delete=False) as file:
            file.write(sha256(data).digest() + data)
        os.replace(file.name, place)
    except OSError:
        return
