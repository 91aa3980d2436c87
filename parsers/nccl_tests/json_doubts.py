"""What a JSON document of nccl-tests says that nccl-tests does not write: it was edited, damaged, or
put together, and none of it may pass for a good number.

Written against `src/util.cu` of nccl-tests 2.17.3 to 2.19.6.

>>> list(doubts({"results": [], "out_of_bounds": {"count": 0, "okay": "False"}}))
['out_of_bounds.okay is "False", neither true nor false']
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from busbw.parsers.nccl_tests.json_trees import Tree, get, items, number, quoted

_PLACEMENTS = ("out_of_place", "in_place")
_AVERAGES = ("average_bus_bandwidth", "average_bus_bandwidith")
_EXITS = ("exit_status", "exit_code", "exitcode", "returncode", "return_code", "rc")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")


def doubts(tree: Tree) -> Iterator[str]:
    """Each of them, in words."""
    for name in ("out_of_bounds", *_AVERAGES):
        verdict = get(tree, name, "okay")
        if not _is_verdict(verdict):
            yield f"{name}.okay is {quoted(verdict)}, neither true nor false"
    yield from _of_count("out_of_bounds.count", get(tree, "out_of_bounds", "count"))
    rows = items(get(tree, "results"))
    for position, row in enumerate(rows, 1):
        if get(row, "actual_iterations") == 0:
            yield f"no iteration was timed, element {position} of results"
        for name in _PLACEMENTS:
            where = f"{name} of element {position} of results"
            yield from _of_count(f"nwrong, {where},", get(row, name, "nwrong"))
    yield from _of_placements(rows)
    yield from _of_end(tree)
    if not isinstance(get(tree, "errors"), list | None) or any(
        not isinstance(each, str) for each in items(get(tree, "errors"))
    ):
        yield f"errors: {quoted(get(tree, 'errors'))}"


def _is_verdict(value: Tree) -> bool:
    return value is None or isinstance(value, bool) or value in ("true", "false", "unchecked")


def _of_end(tree: Tree) -> Iterator[str]:
    """An end before the start, and what a wrapper added of how the program ended."""
    start, end = (get(tree, name) for name in ("start_time", "end_time"))
    both_times = all(isinstance(each, str) and _TIME.fullmatch(each) for each in (start, end))
    if both_times and str(end).replace("T", " ") < str(start).replace("T", " "):
        yield f"it ends at {end} and starts at {start}"
    for name in _EXITS:
        if number(get(tree, name)):
            yield f"{name} is {quoted(get(tree, name))}"
    for name in ("status", "result", "state"):
        word = get(tree, name)
        if isinstance(word, str) and re.search(r"(?i)fail|error|abort|kill|time.?out|crash", word):
            yield f"{name} is {quoted(word)}"


def _of_count(name: str, value: Tree) -> Iterator[str]:
    count = number(value)
    if value not in (None, "N/A") and (isinstance(value, bool) or count is None or count < 0):
        yield f"{name} is {quoted(value)}, no count"


def _of_placements(rows: list[Tree]) -> Iterator[str]:
    """A collective is measured in place in all sizes, or in none."""
    for name in _PLACEMENTS:
        missing = [n for n, row in enumerate(rows, 1) if get(row, name) is None]
        if missing and len(missing) < len(rows):
            yield f"{name} is null in {len(missing)} of {len(rows)} elements of results, first in {missing[0]}"


def repeated_keys(text: str) -> tuple[str, ...]:
    """The keys that stand twice in one object of a document: a reader sees the last of them alone."""
    repeated: dict[str, None] = {}

    def counted(pairs: list[tuple[str, object]]) -> None:
        counts = Counter(name for name, _ in pairs)
        repeated.update(dict.fromkeys(name for name, count in counts.items() if count > 1))

    json.loads(text, object_pairs_hook=counted)
    return tuple(repeated)
