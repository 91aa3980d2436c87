"""The options of an nccl-tests binary (2.19.6) for a case.

An option newer than 2.13 is given only where it changes something: a binary answers an unknown
option with its usage and exit status 0.
"""

from __future__ import annotations

from busbw.model import BenchmarkCase, Command
from busbw.units import size_option


def arguments(case: BenchmarkCase, json_path: str | None) -> tuple[str, ...]:
    """The binary's arguments: one GPU per process (-g 1), sizes, iterations, checks.

    >>> from busbw.model import Collective, Sizes
    >>> " ".join(arguments(BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 8 << 30)), None))
    '-b 8 -e 8G -f 2 -g 1 -n 20 -w 5 -c 1 -z 0'
    """
    sizes = case.sizes
    options = ["-b", size_option(sizes.minimum_bytes), "-e", size_option(sizes.maximum_bytes)]
    if sizes.minimum_bytes != sizes.maximum_bytes:
        if sizes.factor is not None:
            options += ["-f", str(sizes.factor)]
        elif sizes.increment_bytes is not None:
            options += ["-i", size_option(sizes.increment_bytes)]
    options += [
        "-g",
        "1",
        "-n",
        str(case.iterations),
        "-w",
        str(case.warmup),
        "-c",
        str(case.check),
        "-z",
        str(case.blocking),
    ]
    if case.cycles != 1:
        options += ["-N", str(case.cycles)]
    if case.per_iteration:
        options += ["-I", "1"]
    if json_path is not None and case.json:
        options += ["-J", json_path]
    return tuple(options)


_FETCH = """\
[ -r "$1" ] || exit 1
s='[[:space:]]*' text='"([^"\\\\]|\\\\.)*'
tr '\\n' '\\r' < "$1" | sed -E "s/\\"env\\":$s\\[($s$text\\"$s,?)*$s(\\]|($text\\\\\\\\?)?\\$)/\\"env\\":[]/" | tr '\\r' '\\n'
"""


def fetch_json(path: str, store: str) -> Command:
    """The JSON at `path`, kept as `raw/<store>`, without the environment of the ranks: nccl-tests
    writes all of it, tokens too, and none of it may leave the node. Exit status non-zero = there is
    no such file.
    """
    return Command(
        ("sh", "-c", _FETCH, "busbw-fetch", path), timeout_s=300, label="fetch", store=store
    )
