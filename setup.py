"""What `pyproject.toml` cannot say: a wheel also holds what Jinja's compiler makes of the templates (`runtimes/prepare.py`)."""

import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py


class Build(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # there the Makefile does it, with the Jinja that will be used
            subprocess.run([sys.executable, "-B", "-m", "luminal.runtimes.prepare"], cwd=self.build_lib, check=True)

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Without this file, which lies in the root of the package."""
        return [m for m in super().find_package_modules(package, package_dir) if m[1] != "setup"]


setup(cmdclass={"build_py": Build})
