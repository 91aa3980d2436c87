"""Which saved tables are the launches of a criterion, and in what they differ from each other.

A number of a contract is about one kind of machine and one software. What launches of several GPU
models, NCCL versions or numbers of ranks come to together is nobody's number, unless the contract's
specification allows each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from busbw.inventory.hostlist import fold
from busbw.model import Requirement
from busbw.model.benchmark import BenchmarkResult, Measurement
from busbw.parsers.nccl_tests.checks import FEWEST_ITERATIONS, timed_iterations
from busbw.parsers.nccl_tests.run_facts import RunFacts
from busbw.playbook import specification
from busbw.playbook.contract import Contract
from busbw.units import counted

Launch = tuple[BenchmarkResult, Measurement]
"""A table, and what it measured at the criterion's size, out of place."""

_KEYS = {"gpu_model": "GPU models", "nccl": "NCCL versions"}
"""What of a contract's specification a table can show."""
_MOST_NAMED = 4


def launches_of(
    collective: str, size_bytes: int, contract: Contract, tables: Sequence[BenchmarkResult]
) -> tuple[tuple[Launch, ...], str]:
    """The launches of a criterion, and why others are none of its; empty = all of them are."""
    launches: list[Launch] = []
    why, few = f"no complete table of {collective} has this size", 0
    for table in tables:
        if table.collective != collective:
            continue
        if table.faults or not table.complete:
            why = f"the tables of {collective} are bad or incomplete"
            continue
        side = {row.size_bytes: row.out_of_place for row in table.rows}.get(size_bytes)
        if side is None:
            continue
        other = _other_machine(table, contract)
        if other:
            why = other
            continue
        timed = timed_iterations(table.config)
        if timed is not None and timed < FEWEST_ITERATIONS:
            few += 1
            continue
        launches.append((table, side))
    if few and not launches:
        of = counted(few, "table")
        why = f"{of} of fewer than {FEWEST_ITERATIONS} timed iterations: no measurement"
    return tuple(launches), why


def _other_machine(table: BenchmarkResult, contract: Contract) -> str:
    """What the contract is not about; empty = the table shows nothing of that kind."""
    if contract.nodes is not None and table.nodes != contract.nodes:
        seen = "on nodes that it does not list" if table.nodes is None else f"on {table.nodes}"
        return f"measured {seen}, and the contract is about {contract.nodes} nodes"
    for demand in _demands(contract):
        for value in _shown(table, demand.key):
            if not specification.met(demand, value):
                return f"measured with {value}, and the contract says {specification.shown(demand)}"
    return ""


def _demands(contract: Contract) -> tuple[Requirement, ...]:
    block = {key: text for key, text in contract.specification.items() if key in _KEYS}
    return specification.requirements(block, "contract")


def _shown(table: BenchmarkResult, key: str) -> Iterable[str]:
    if key == "gpu_model":
        return sorted({line.device_name for line in table.ranks if line.device_name})
    return [table.nccl_version] if table.nccl_version else []


def mixed(tables: Sequence[BenchmarkResult], contract: Contract) -> str:
    """Why these launches of a criterion have no number in common; empty = they may have one."""
    kinds = of_several_kinds(tables, contract)
    if kinds:
        return kinds
    ranks = Counter(str(table.nranks) for table in tables if table.nranks)
    if len(ranks) > 1:
        return (
            f"launches of several numbers of ranks, {_listed(ranks)}: they have no number in common"
        )
    return ""


def of_several_kinds(tables: Sequence[BenchmarkResult], contract: Contract) -> str:
    """That they are of several GPU models or NCCL versions; empty = they are not, or each of them is
    what the contract's specification demands."""
    for key, name in _KEYS.items():
        values = Counter(value for table in tables for value in _shown(table, key))
        if len(values) > 1 and key not in contract.specification:
            return (
                f"launches of several {name}, {_listed(values)}: they have no number in common"
                f" (the contract's specification has no {key})"
            )
    return ""


def _listed(values: Counter[str]) -> str:
    """`NVIDIA H200 (2 launches), NVIDIA H100 (1 launch)`."""
    named = [
        f"{value} ({counted(count, 'table')})" for value, count in values.most_common(_MOST_NAMED)
    ]
    return ", ".join(named) + (" …" if len(values) > _MOST_NAMED else "")


def is_cold(table: BenchmarkResult) -> bool:
    """Whether nothing was run before the clock: NCCL's connections are made in the first iteration."""
    return RunFacts(config=table.config).number("warmup iters", "warmup_iters") == 0


def differences(used: Mapping[str, Sequence[BenchmarkResult]]) -> Iterator[str]:
    """What differs between the launches of each criterion, by its id, and spoils no number: their
    nodes, and how they were timed."""
    every = {line.host for tables in used.values() for table in tables for line in table.ranks}
    for text, ids in _by_text(used, lambda tables: _nodes(tables, every)).items():
        yield f"{_of(ids)}: {text}"
    for text, ids in _by_text(used, _timing).items():
        yield f"{_of(ids)}: {text}"


def _by_text(
    used: Mapping[str, Sequence[BenchmarkResult]],
    text_of: Callable[[Sequence[BenchmarkResult]], str],
) -> dict[str, list[str]]:
    """The ids of the criteria of which the same is to be said."""
    ids: dict[str, list[str]] = {}
    for criterion_id, tables in used.items():
        text = text_of(tables)
        if text:
            ids.setdefault(text, []).append(criterion_id)
    return ids


def _of(ids: Sequence[str]) -> str:
    return f"{'criterion' if len(ids) == 1 else 'criteria'} {', '.join(ids)}"


def _nodes(tables: Sequence[BenchmarkResult], every: set[str]) -> str:
    groups = Counter(frozenset(line.host for line in table.ranks) for table in tables)
    groups.pop(frozenset(), None)
    measured = frozenset[str]().union(*groups)
    missing = (
        f"; never on {fold(sorted(every - measured))}" if every - measured and measured else ""
    )
    if len(groups) < 2:
        return f"measured on {fold(sorted(measured))}{missing}" if missing else ""
    named = [f"{fold(sorted(group))} ({count})" for group, count in groups.most_common(_MOST_NAMED)]
    more = " …" if len(groups) > _MOST_NAMED else ""
    joined = "" if measured in groups else "; no launch joins them all"
    return f"launches on {len(groups)} groups of nodes, {', '.join(named)}{more}{joined}{missing}"


_TIMING = (
    ("warm-up", ("warmup iters", "warmup_iters")),
    ("iterations", ("iters", "iterations")),
    ("operations at once", ("agg iters", "aggregated_iterations")),
    ("graph", ("graph",)),
)


def _timing(tables: Sequence[BenchmarkResult]) -> str:
    parts = []
    for name, keys in _TIMING:
        numbers = (RunFacts(config=table.config).number(*keys) for table in tables)
        values = {number for number in numbers if number is not None}
        if len(values) > 1:
            parts.append(f"{name} {', '.join(map(str, sorted(values)))}")
    cold = sum(map(is_cold, tables))
    if cold:
        parts.append(f"no warm-up (-w 0) in {counted(cold, 'table')}, which makes them slower")
    return (
        f"timed in several ways: {'; '.join(parts)}" if len(parts) > bool(cold) else "".join(parts)
    )
