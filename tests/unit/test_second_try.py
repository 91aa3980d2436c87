"""What `make test` runs again, and that a failure which stays is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IN_LAB = "tests/lab/test_a.py"


def make_test(folder: Path, tests: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The part of `tests/all.sh` that runs the tests, in a folder with nothing but these."""
    for name, text in tests.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "tests" / "second_try.py").write_text((ROOT / "tests" / "second_try.py").read_text())
    script = (ROOT / "tests" / "all.sh").read_text()
    words = [
        "sh",
        "-c",
        "failed=0\n" + script[script.index("rm -f .pytest_cache") :],
        "all.sh",
        "tests",
    ]
    env = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "HOME": str(folder)}
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )


ONCE = """
from pathlib import Path
def test_once():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
"""


def test_a_test_of_the_lab_that_failed_once_passes_and_is_told(tmp_path: Path) -> None:
    done = make_test(tmp_path, {IN_LAB: ONCE})
    assert done.returncode == 0, done.stdout
    assert "AssertionError: the first time" in done.stdout
    assert done.stdout.splitlines()[-1] == f"test: failed once, then passed: {IN_LAB}::test_once"


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        ({IN_LAB: "def test_no():\n    assert 0\n"}, "it stays"),
        ({"tests/unit/test_a.py": ONCE}, "not of the lab"),
        (
            {IN_LAB: ONCE, "tests/unit/test_b.py": "def test_no():\n    assert 0\n"},
            "another is wrong",
        ),
        (
            {f"tests/lab/test_{n}.py": ONCE.replace('"seen"', f'"seen{n}"') for n in range(4)},
            "many at once",
        ),
        (
            {IN_LAB: ONCE, "tests/lab/test_b.py": "import nothing_of_this_name\n"},
            "not even collected",
        ),
        ({IN_LAB: ONCE + "def test_stop():\n    raise KeyboardInterrupt\n"}, "interrupted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_other_failure_stands(tmp_path: Path, tests: dict[str, str], why: str) -> None:
    done = make_test(tmp_path, tests)
    assert done.returncode == 1, (why, done.stdout)
    assert "then passed" not in done.stdout
