"""A copy of the package to add files to, run by its own interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class ScratchCopy:
    """`package` is what `import busbw` gives there."""

    package: Path

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """`busbw ARGV` of the copy."""
        return self.python("-m", "busbw", *argv)

    def python(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """An interpreter that imports the copy."""
        return subprocess.run(
            (sys.executable, *argv),
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.package.parent,
            env={
                **os.environ,
                "PYTHONPATH": str(self.package.parent),
                "COLUMNS": "200",
            },
            check=False,
        )

    def add(self, path: str, text: str) -> None:
        """Append `text` to that file of the package; a new file where there is none."""
        with (self.package / path).open("a", encoding="utf-8") as file:
            file.write(text)

    def changed(self) -> list[str]:
        """The files that differ from the tree's, or are not in it."""
        return sorted(
            str(path.relative_to(self.package))
            for path in self.package.rglob("*")
            if path.is_file()
            and path.suffix != ".pyc"
            and not _same(path, _source(path.relative_to(self.package)))
        )


def scratch_copy(directory: Path) -> ScratchCopy:
    """The tree's package below `directory`."""
    package = directory / "busbw"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "harness", package, ignore=ignored)
    for name in ("parsers", "reports", "playbooks", "inventories"):
        shutil.copytree(ROOT / name, package / name, ignore=ignored)
    return ScratchCopy(package)


def _source(path: Path) -> Path:
    folder = ROOT if path.parts[0] in ("parsers", "reports", "playbooks", "inventories") else None
    return (folder or ROOT / "harness") / path


def _same(path: Path, source: Path) -> bool:
    return source.is_file() and source.read_bytes() == path.read_bytes()
