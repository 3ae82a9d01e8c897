"""An empty virtual environment, as a newcomer has one, and the wheel that is installed into it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tests.docs.pages import ROOT

DEPENDENCIES = ("numba", "numpy", "llvmlite")


class BareEnvironment:
    """A virtual environment with pip, numpy and numba, and nothing of the one that runs the tests.

    numpy, numba and llvmlite are links to the installed packages and their metadata, because tests
    use no network. pip finds them there, and finds no other package: a dependency that slotwise
    forgets to put into an extra ends the installation.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels = folder / "wheels"
        environment = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        [packages] = environment.glob("lib/python*/site-packages")
        for name in DEPENDENCIES:
            link_distribution(name, packages)
        # Not the variables of this process: they name its sources, its cache and its index.
        self.variables = {
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(environment / "bin"), os.environ["PATH"]]),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_INDEX": "1",
        }

    def build_wheel(self) -> None:
        """Build the wheel with the hatchling of the running environment."""
        build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run(
            [sys.executable, "-m", "pip", *build, "--wheel-dir", self.wheels, ROOT], check=True
        )

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of shell as a reader types it."""
        return self._run(["bash", "-euc", line])

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        """Save a program to a file and run it."""
        path = self.folder / "program.py"
        path.write_text(program, encoding="utf-8")
        return self._run(["python", str(path)])

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )


def link_distribution(name: str, packages: Path) -> None:
    """Link what a distribution put into the running environment into another one's packages."""
    distribution = metadata.distribution(name)
    for part in {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}:
        (packages / part).symlink_to(Path(str(distribution.locate_file(part))).resolve())
