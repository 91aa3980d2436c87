"""From `--sweep`, `--treatment` and a playbook's soak to what is measured in turn. No node is asked."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from busbw.errors import UsageError
from busbw.fabrics import fabric as profile
from busbw.fabrics.fabric import Harmful, Profile
from busbw.inventory import fold
from busbw.launch import variables
from busbw.launch.env import STRAY_PREFIXES
from busbw.model import BenchmarkCase
from busbw.playbook import Playbook
from busbw.store.plan import Interleaving

MOST_SETTINGS = 16
"""Combinations of one run: each is launched in every round."""
_PREFIXES = (*STRAY_PREFIXES, "LAB_", "BUSBW_PAYLOAD_", "MLX5_", "SHARP_", "HCOLL_", "CUDA_")
_OURS = ("NCCL_TESTS_", "NCCL_DEBUG")

Setting = tuple[tuple[str, str], ...]


def settings(items: Sequence[str]) -> tuple[Setting, ...]:
    """Every combination of `NAME=a,b` options, each variable also unset; the first is without any.
    `\\,` is a comma inside a value.

    >>> settings(["NCCL_IB_TC=1,2"])
    ((), (('NCCL_IB_TC', '1'),), (('NCCL_IB_TC', '2'),))

    Raises:
        UsageError: one is not NAME=VALUES, names a variable that is not to be tried, or there are
        too many combinations.
    """
    choices: dict[str, list[str]] = {}
    if not items:
        return ()
    for item in items:
        name, equals, text = item.partition("=")
        values = [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text)]
        if not equals or not all(values):
            raise UsageError(
                f"--sweep {item!r}: expected NAME=VALUE,VALUE",
                next_step="for example --sweep NCCL_IB_QPS_PER_CONNECTION=2,4",
            )
        what = next((fault for value in values if (fault := variables.fault(name, value))), None)
        if what is None and (not name.startswith(_PREFIXES) or name.startswith(_OURS)):
            what = (
                f"{name} does not tune NCCL or its network: it would change what is measured, not"
                " how fast it is"
            )
        if what is not None:
            raise UsageError(f"--sweep: {what}", next_step="leave it out")
        choices.setdefault(name, []).extend(values)
    axes = [[None, *dict.fromkeys(values)] for values in choices.values()]
    found = tuple(
        tuple(
            (name, value)
            for name, value in zip(choices, combination, strict=True)
            if value is not None
        )
        for combination in itertools.product(*axes)
    )
    if len(found) > MOST_SETTINGS:
        raise UsageError(
            f"--sweep makes {len(found)} combinations, and each is launched in every round",
            seen=f"at most {MOST_SETTINGS} are measured in one run",
            next_step="try one variable after the other, and keep what gains",
        )
    return found


def refuse_unsafe(wanted: tuple[Setting, ...], fabric: Profile) -> None:
    """Settings that are known to do harm are not tried; where the fabric is not known yet, what
    harms any fabric.

    Raises:
        UsageError: the first of them, with the reason and its source.
    """
    known = (
        (fabric,)
        if fabric.name != profile.UNDETECTED
        else tuple(profile.load(name) for name in profile.names())
    )
    for name, value in dict.fromkeys(pair for setting in wanted for pair in setting):
        harm = next(
            (item for each in known for item in each.harmful if _meant(item, name, value)), None
        )
        if harm is not None:
            raise UsageError(
                f"--sweep {name}={value} is refused: {harm.why}",
                seen=f"source: {harm.source}",
                next_step=f"instead: {harm.instead}" if harm.instead else "leave it out",
            )


def _meant(item: Harmful, name: str, value: str) -> bool:
    return item.name == name and any(fnmatchcase(value, glob) for glob in item.values)


def interleave(
    book: Playbook,
    nodes: tuple[str, ...],
    wanted: tuple[Setting, ...] = (),
    treatment: tuple[str, ...] = (),
    soak_s: float | None = None,
) -> tuple[Playbook, Interleaving | None]:
    """The playbook without the cases that are measured in turn, and those; None = nothing is.

    Raises:
        UsageError: two kinds of interleaving at once, no case for them, or too few unchanged nodes.
    """
    soak_s = soak_s if soak_s is not None else book.soak_s
    kinds = [
        name
        for name, asked in (("--sweep", wanted), ("--treatment", treatment), ("a soak", soak_s))
        if asked
    ]
    if not kinds:
        return book, None
    if len(kinds) > 1 or book.contract is not None:
        raise UsageError(
            f"{' and '.join(kinds)} cannot be measured together, nor with a contract",
            next_step="make a run for each",
        )
    if treatment:
        _enough(nodes, treatment)
    cases = tuple(
        case
        for case in book.cases
        if case.purpose == "bandwidth" and case.required and not case.repeats
    )
    if not cases:
        raise UsageError(
            f"playbook {book.name} has no required bandwidth case for {kinds[0]}",
            next_step="name another playbook",
        )
    rest = tuple(case for case in book.cases if case.purpose == "proof")
    kept = dataclasses.replace(
        book,
        cases=rest,
        gates=(),
        survey=dataclasses.replace(book.survey, when="never"),
        repeat=None,
    )
    made = Interleaving(
        tuple(_plain(case, check=bool(wanted)) for case in cases), wanted, treatment, soak_s
    )
    if book.repeat is not None:
        made = dataclasses.replace(
            made,
            most=book.repeat.most,
            budget_s=book.repeat.budget_s,
            least=min(made.least, book.repeat.most),
        )
    return kept, made


def _plain(case: BenchmarkCase, *, check: bool) -> BenchmarkCase:
    """Of no purpose that others compare with; what a setting does to the data is checked."""
    return dataclasses.replace(
        case, purpose="diagnosis", check=max(case.check, 1) if check else case.check
    )


def _enough(nodes: tuple[str, ...], changed: tuple[str, ...]) -> None:
    strangers = [name for name in changed if name not in nodes]
    if strangers:
        raise UsageError(
            f"--treatment names {fold(strangers)}, which the run does not have",
            seen=f"nodes: {fold(nodes)}",
        )
    groups(nodes, changed)


def groups(
    nodes: tuple[str, ...], changed: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(nodes of a launch with the changed ones, as many unchanged ones); one changed node gets an
    unchanged partner, so that it has a network.

    >>> groups(("a", "b", "c", "d"), ("c",)), groups(("a", "b", "c", "d"), ("c", "d"))
    ((('c', 'a'), ('a', 'b')), (('c', 'd'), ('a', 'b')))

    Raises:
        UsageError: there are too few unchanged nodes.
    """
    unchanged = tuple(node for node in nodes if node not in changed)
    with_change = tuple(node for node in nodes if node in changed)
    with_change += unchanged[: max(0, 2 - len(with_change))]
    if len(unchanged) < len(with_change) or len(with_change) < 2:
        raise UsageError(
            f"{len(unchanged)} control nodes for {len(changed)} treatment nodes",
            seen=f"nodes: {fold(nodes)}; treatment: {fold(changed)}",
            next_step=(
                "as many control nodes as treatment nodes are needed, at least two: name fewer with"
                " --treatment, or more nodes"
            ),
        )
    return with_change, unchanged[: len(with_change)]
