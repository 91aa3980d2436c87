"""The numbers of a contract, as a playbook's `contract:` block or a file of its own says them.

title: Order 4711, annex B
nodes: 512
criteria:
  - {id: all-reduce-8g, case: all-reduce, size: 8G, busbw_gb_s: 370}
  - {id: latency-8, case: latency, size: 8, time_us: 60, trials: 1}
specification: {nics: 8, nic_rate: 400}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from busbw.codec import Path as Steps
from busbw.codec import Written, read_yaml, refuse
from busbw.errors import PlaybookError
from busbw.files import read_given
from busbw.playbook.specification import problems as specification_problems
from busbw.units import parse_size


@dataclass(frozen=True, slots=True)
class Criterion:
    """One number of the contract; exactly one of `busbw_gb_s` and `time_us` is given."""

    id: str
    case: str
    """Case of the playbook that measures it."""
    size: Annotated[int, Written(parse_size)]
    """Message size, bytes."""
    busbw_gb_s: float | None = None
    """At least so much bus bandwidth."""
    time_us: float | None = None
    """At most so long a call."""
    quantile: float = 0.5
    """Of the launches, 0..1: 0.5 = the median, 0 = the worst for the provider's number to hold
    every time."""
    trials: int = 3
    """Fewer launches are not enough to say."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What was promised."""

    criteria: tuple[Criterion, ...]
    title: str = ""
    nodes: int | None = None
    """Nodes that the contract is about; None = not said."""
    specification: dict[str, str] = field(default_factory=dict)
    """What every node must have, by the keys of `specification.FIELDS`."""


def problems(contract: Contract, cases: frozenset[str] | None) -> Iterator[tuple[Steps, str]]:
    """(place, what is wrong) of everything that no type refuses; `cases` None = not known here."""
    if not contract.criteria:
        yield ("criteria",), "names no criterion: nothing could be accepted"
    if contract.nodes is not None and contract.nodes < 1:
        yield ("nodes",), f"must be 1 or more, not {contract.nodes}"
    seen: set[str] = set()
    for index, each in enumerate(contract.criteria):
        where: Steps = ("criteria", index)
        if each.id in seen:
            yield (*where, "id"), f"criterion {each.id!r} is there already"
        seen.add(each.id)
        if cases is not None and each.case not in cases:
            yield (*where, "case"), f"no case {each.case!r}; known: {', '.join(sorted(cases))}"
        if (each.busbw_gb_s is None) == (each.time_us is None):
            yield where, "a criterion has busbw_gb_s or time_us, and not both"
        for name, value in (("busbw_gb_s", each.busbw_gb_s), ("time_us", each.time_us)):
            if value is not None and not 0 < value < float("inf"):
                yield (*where, name), f"must be more than 0, not {value:g}"
        if not 0 <= each.quantile <= 1:
            yield (*where, "quantile"), f"a share between 0 and 1, not {each.quantile:g}"
        if each.trials < 1:
            yield (*where, "trials"), f"must be 1 or more, not {each.trials}"
    for key, what in specification_problems(contract.specification):
        yield ("specification", key), what


def load(path: Path, cases: frozenset[str]) -> Contract:
    """The contract in a file of its own.

    Raises:
        PlaybookError: the file cannot be read, or is wrong: every problem at once.
    """
    try:
        text = read_given(path).decode()
    except OSError as error:
        raise PlaybookError(
            f"--contract {path}: {error.strerror or error}",
            next_step="busbw expect --contract-template prints a form",
        ) from error
    except UnicodeDecodeError as error:
        raise PlaybookError(f"--contract {path}: not a text in UTF-8", seen=str(error)) from error
    document = read_yaml(text, str(path), Contract, error=PlaybookError)
    refuse(
        (document.problem(steps, what) for steps, what in problems(document.value, cases)),
        PlaybookError,
    )
    return document.value
