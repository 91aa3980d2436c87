"""Runs the commands that stand in docs/*.md and holds what they print against what stands there:
`python tests/transcripts.py [--write] [FILE…]`.

A transcript is a fenced `console` block behind a line `<!-- transcript -->`, or `<!-- transcript:
long -->` where it takes minutes: `steps` leaves those out unless it is asked for them, and so does
the test. Lines that start with `$ ` are commands, run by bash one after the other in one empty
folder with the files of docs/examples; the rest is what they printed on standard output, then
`(exit N)` where the status was not 0. Figures differ from run to run: two outputs are alike when
they are equal but for their digits. `--write` puts today's output into the file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_BLOCK = re.compile(
    r"(?P<head><!-- transcript(?P<long>: long)? -->\n```console\n)(?P<body>.*?)(?P<tail>^```$)",
    re.MULTILINE | re.DOTALL,
)
_LIMIT_S = 400


@dataclass(frozen=True)
class Step:
    """One command and what it printed."""

    command: str
    printed: str


def documents() -> tuple[Path, ...]:
    """The files with a transcript in them."""
    return tuple(
        path
        for path in sorted(DOCS.glob("*.md"))
        if _BLOCK.search(path.read_text(encoding="utf-8"))
    )


def steps(text: str, *, long: bool = False) -> tuple[Step, ...]:
    """The commands of a document with what stands behind each."""
    found: list[Step] = []
    for block in _BLOCK.finditer(text):
        if block["long"] and not long:
            continue
        for line in block["body"].splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], ""))
            else:
                found[-1] = Step(found[-1].command, found[-1].printed + line + "\n")
    return tuple(found)


def run(commands: tuple[str, ...]) -> tuple[Step, ...]:
    """Run them in a folder of their own; labs that they leave behind are taken down."""
    with tempfile.TemporaryDirectory(prefix="busbw-docs-") as folder:
        here, labs = Path(folder) / "here", Path(folder) / "labs"
        shutil.copytree(DOCS / "examples", here)
        bin_folder = str(Path(sys.executable).parent)
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GITHUB_", "BUSBW_", "SLURM_", "NCCL_"))
        }
        env |= {
            "PATH": f"{bin_folder}:{env['PATH']}",
            "BUSBW_LAB_DIR": str(labs),
            "COLUMNS": "120",
            "NO_COLOR": "1",
        }
        try:
            return tuple(Step(command, _printed(command, here, env)) for command in commands)
        finally:
            subprocess.run(
                ["busbw", "lab", "down", "--all"],
                env=env,
                cwd=here,
                capture_output=True,
                timeout=60,
                check=False,
            )


def _printed(command: str, here: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=here,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    said = done.stdout if done.returncode in (0, 1) or done.stdout else done.stderr
    return said + (f"(exit {done.returncode})\n" if done.returncode else "")


def alike(one: str, other: str) -> bool:
    """Equal but for digits, for the width of columns that digits fill, and for which of two
    comparisons saw a loss best: the noise decides."""
    return _shape(one) == _shape(other)


def _shape(text: str) -> str:
    text = re.sub(
        r"\S+ at \d+ [KMG]iB against peers|pairs of nodes against each other", "PEERS", text
    )
    text = text.replace(" of this run's number", "")
    return re.sub(r"[ \t]+", " ", re.sub(r"\d+(?:[.,:]\d+)*", "0", text)).strip()


def written(text: str, ran: tuple[Step, ...]) -> str:
    """The document with that output in it."""
    left = list(ran)

    def fill(block: re.Match[str]) -> str:
        count = sum(line.startswith("$ ") for line in block["body"].splitlines())
        own, left[:] = left[:count], left[count:]
        return (
            block["head"]
            + "".join(f"$ {step.command}\n{step.printed}" for step in own)
            + block["tail"]
        )

    return _BLOCK.sub(fill, text)


def main(words: list[str]) -> int:
    """Compare, or write."""
    write = "--write" in words
    paths = [Path(word).resolve() for word in words if not word.startswith("-")] or list(
        documents()
    )
    failed = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        wanted = steps(text, long=True)
        ran = run(tuple(step.command for step in wanted))
        if write:
            path.write_text(written(text, ran), encoding="utf-8")
            continue
        for old, new in zip(wanted, ran, strict=True):
            if not alike(old.printed, new.printed):
                failed = 1
                print(
                    f"{path.relative_to(ROOT)}: $ {old.command}\n--- stands there\n{old.printed}---"
                    f" printed now\n{new.printed}"
                )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
