"""Which failed tests are measured a second time: a few of the lab's, whose subject is real traffic
on a machine that others share.

Prints their ids, one a line; nothing where the failure stands. A test without the lab that fails is
wrong, and so are many that fail at once. The first failure stays in the output whole, and
`tests/all.sh` ends with a line for each test that needed its second try.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path

MOST = 3
"""More than these failed: something is broken."""
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def measured_again(failed: Collection[str]) -> list[str]:
    """The ids of the failed tests to run again: all of them or none.

    >>> measured_again(["tests/lab/test_survey.py::test_a"])
    ['tests/lab/test_survey.py::test_a']
    >>> measured_again(["tests/lab/test_survey.py::test_a", "tests/unit/test_b.py::test_b"])
    []
    """
    fine = 0 < len(failed) <= MOST and all(
        each.startswith("tests/lab/") and "::" in each for each in failed
    )
    return sorted(failed) if fine else []


if __name__ == "__main__":
    try:
        known = json.loads(LAST_FAILED.read_text())
    except FileNotFoundError:
        sys.exit(0)
    print("\n".join(measured_again(known)))
