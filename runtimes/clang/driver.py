"""The driver of the clang runtime."""

from __future__ import annotations

from pathlib import Path

from ...ir.program import Program
from ...ir.target import Target
from .. import ConfigKey, Description, Rendered
from .emit import emit


class Driver:
    def __init__(self, description: Description, folders: tuple[Path, ...]) -> None:
        self.description, self.folders = description, folders
        self.name, self.folder = description.name, description.folder

    def config_keys(self) -> tuple[ConfigKey, ...]:
        return self.description.config

    def render(self, program: Program, target: Target, prefix: str) -> Rendered:
        return emit(self.description, self.folders, program, target, prefix)
