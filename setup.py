"""What `pyproject.toml` cannot say: a wheel also holds what Jinja's compiler makes of the templates (`runtimes/prepare.py`); with LUMINAL_COMPILED=1 in the environment also the
modules that are compiled ahead of time (`compile_core.py`; needs mypy and a C compiler), and is for one interpreter then."""

import os
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

COMPILED = bool(os.environ.get("LUMINAL_COMPILED"))


class Luminal(Distribution):
    def has_ext_modules(self) -> bool:
        return COMPILED


class Build(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # there the Makefile does it, with the Jinja that will be used
            for made in ("luminal.runtimes.prepare", *(["luminal.compile_core"] if COMPILED else [])):
                subprocess.run([sys.executable, "-B", "-m", made], cwd=self.build_lib, check=True)

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Without this file, which lies in the root of the package."""
        return [m for m in super().find_package_modules(package, package_dir) if m[1] != "setup"]


setup(cmdclass={"build_py": Build}, distclass=Luminal)
