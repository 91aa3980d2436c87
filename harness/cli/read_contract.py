"""`busbw read --contract FILE`: the numbers of a contract against saved outputs, each table a launch.

A saved output shows numbers alone. Which nodes, links and settings gave them, and whether the
machine is the one that was bought, only `busbw run provider-acceptance` sees; so nothing is
*accepted* here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import playbook
from busbw.cli.contract_launches import differences, is_cold, launches_of, mixed, of_several_kinds
from busbw.model import CriterionResult, Status
from busbw.model.benchmark import BenchmarkCase, BenchmarkResult
from busbw.parsers import contract as judge
from busbw.parsers.contract import Launches
from busbw.parsers.expect.saved import uneven_nodes
from busbw.parsers.nccl_tests import rates
from busbw.parsers.nccl_tests.copies import first_copies
from busbw.playbook.contract import Contract, Criterion, load
from busbw.reports import terminal
from busbw.reports.safe import one_line
from busbw.reports.terminal import Line
from busbw.units import counted

_PLAYBOOK = "provider-acceptance"
_WORDS = {Status.PASS: "NUMBERS MET", Status.FAIL: "NUMBERS MISSED"}
_OPEN = "INCONCLUSIVE"


def lines(
    path: Path,
    tables: Sequence[BenchmarkResult],
    *,
    not_whole: Sequence[str] = (),
    over_sockets: Sequence[str] = (),
) -> tuple[str, tuple[Line, ...], int]:
    """What to print before the tables (empty = all is met), what behind them, the verdict last, and
    the exit status: 0 = every number is met, 1 = one is missed, 3 = one is not measured, or not on
    enough launches, or an output says nothing.

    not_whole: the outputs that were not read, not to their end, or hold wrong data. What the others
    show is no proof that the numbers are met where a launch beside them failed.
    over_sockets: the outputs in which NCCL's log says that the bytes went over TCP sockets, which is
    not what a fabric's numbers are about.

    Raises:
        PlaybookError: the contract cannot be read, or is wrong.
    """
    cases = {case.id: case for case in playbook.load(_PLAYBOOK).cases if not case.repeats}
    contract = load(path, frozenset(cases))
    firsts = first_copies(tables)
    launches = [table for place, table in enumerate(tables) if firsts[place] == place]
    judged = [_judged(each, cases[each.case], contract, launches) for each in contract.criteria]
    results = [result for result, _ in judged]
    used = {result.id: tables for result, tables in judged if tables}
    collectives = {str(cases[each.case].collective) for each in contract.criteria}
    sockets = () if contract.nodes == 1 else over_sockets
    doubts = _doubts(contract, collectives, launches, not_whole, sockets)
    doubts += _several_kinds(contract, used)
    status = _status(results)
    if status is Status.PASS and doubts:
        status = Status.UNKNOWN
    copies = len(tables) - len(launches)
    notes = [f"tables that repeat another one, counted once: {copies}"] if copies else []
    notes += [*differences(used), *doubts]
    ordered = sorted(results, key=lambda each: each.status is not Status.FAIL)
    met = sum(each.status is Status.PASS for each in results)
    word = _WORDS.get(status, _OPEN)
    shown = [
        *terminal.table(terminal.CRITERIA, map(_row, ordered)),
        *(Line(f"  {text}") for text in notes),
        Line("  not shown by saved outputs: specification, links, settings, all nodes together"),
        Line(f"  next  busbw run {_PLAYBOOK} --contract {shlex.quote(str(path))}", unbroken=True),
        Line(f"busbw: {word} {met} of {len(results)} criteria met {path}"),
    ]
    headline = ""
    if status is not Status.PASS:
        headline = one_line(f"{word}  {_first(ordered, doubts)}") + "\n"
    printed = tuple(Line(one_line(each.text), each.indent, each.unbroken) for each in shown)
    return headline, printed, {Status.PASS: 0, Status.FAIL: 1}.get(status, 3)


def _doubts(
    contract: Contract,
    collectives: Collection[str],
    launches: Sequence[BenchmarkResult],
    not_whole: Sequence[str],
    sockets: Sequence[str],
) -> list[str]:
    """What counts against a pass where every number is met."""
    against = "it counts against a pass"
    doubts = []
    if not_whole:
        names = ", ".join(not_whole[:3]) + (" …" if len(not_whole) > 3 else "")
        doubts.append(f"not every output is complete and right: {names}, see above; {against}")
    partial = _partial_nodes(contract, collectives, launches)
    doubts += [f"{text}; {against}" for text in partial]
    unchecked = _unchecked(collectives, launches)
    if unchecked:
        doubts.append(
            f"no table of {', '.join(unchecked)} shows right data: every #wrong is N/A (-c 0);"
            f" {against}"
        )
    if sockets:
        outputs = counted(len(sockets), "output")
        doubts.append(
            f"NCCL's log in {outputs} says network Socket: the bytes went over TCP, not RDMA"
            f" ({sockets[0]}); {against}; where TCP is what was bought: --fabric tcp"
        )
    return doubts


def _several_kinds(contract: Contract, used: Mapping[str, Sequence[BenchmarkResult]]) -> list[str]:
    """That one criterion was measured on another machine or software than the next; [] also where
    that is so inside one, which then says it itself."""
    if any(mixed(tables, contract) for tables in used.values()):
        return []
    together = {id(table): table for tables in used.values() for table in tables}
    kinds = of_several_kinds(tuple(together.values()), contract)
    return [f"all criteria together: {kinds}; it counts against a pass"] if kinds else []


def _first(results: Sequence[CriterionResult], doubts: Sequence[str]) -> str:
    """The criterion that decides, and why; where all are met, what counts against a pass."""
    for each in results:
        if each.status is not Status.PASS:
            return f"{each.id} {judge.words(each)}: {each.reason}"
    return doubts[0] if doubts else ""


def _status(results: Sequence[CriterionResult]) -> Status:
    given = {each.status for each in results}
    if Status.FAIL in given:
        return Status.FAIL
    return Status.PASS if given == {Status.PASS} else Status.UNKNOWN


def _unchecked(collectives: Collection[str], tables: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    """Those of the collectives that have tables, and none of them with checked data. One that is
    checked is enough: launches for speed leave the check out."""
    seen: dict[str, bool] = {}
    for table in tables:
        if table.collective is not None and table.collective in collectives:
            checked = any(
                value is not None and (value.wrong is not None or value.error is not None)
                for row in table.rows
                for value in (row.out_of_place, row.in_place)
            )
            seen[table.collective] = seen.get(table.collective, False) or checked
    return tuple(sorted(collective for collective, checked in seen.items() if not checked))


def _partial_nodes(
    contract: Contract, collectives: Collection[str], tables: Sequence[BenchmarkResult]
) -> tuple[str, ...]:
    """Tables of these collectives in which GPUs of the nodes take no part, as far as their lists of
    devices show it: uneven nodes, or fewer ranks on a node than the specification has GPUs."""
    wanted = re.search(r"\d+", contract.specification.get("gpus", ""))
    texts = []
    for table in tables:
        if table.collective not in collectives:
            continue
        uneven = uneven_nodes(table)
        nodes, ranks = table.nodes or 0, table.nranks or 0
        if uneven:
            of_contract = f"; the contract says {wanted[0]} GPUs each" if wanted else ""
            texts.append(f"{table.collective}: {uneven}{of_contract}")
        elif wanted and 0 < ranks < int(wanted[0]) * nodes:
            texts.append(
                f"{table.collective}: {ranks} ranks on {counted(nodes, 'node')}, and the contract"
                f" says {wanted[0]} GPUs each"
            )
    return tuple(dict.fromkeys(texts))


def _row(result: CriterionResult) -> tuple[str, ...]:
    *cells, criterion = terminal.criterion_row(result)
    return (*cells, f"{criterion}: {result.reason}")


def _judged(
    term: Criterion, case: BenchmarkCase, contract: Contract, tables: Sequence[BenchmarkResult]
) -> tuple[CriterionResult, tuple[BenchmarkResult, ...]]:
    """The criterion against its launches, and these."""
    collective = str(case.collective)
    if case.env:
        setting = " ".join(f"{name}={value}" for name, value in case.env)
        why = f"it is about {setting}, which a saved table does not show"
        return judge.criterion(term, collective, Launches((), 0, (), why), None), ()
    found, why = launches_of(collective, term.size, contract, tables)
    is_time = term.time_us is not None
    values = tuple(
        side.time_us if is_time else rates.busbw_gb_s(table, term.size, side)
        for table, side in found
    )
    launches = tuple(table for table, _ in found)
    nodes = launches[-1].nodes or 0 if launches else 0
    result = judge.criterion(term, collective, Launches(values, nodes, (), why), None)
    doubt = mixed(launches, contract)
    if not doubt and result.status is Status.FAIL and any(map(is_cold, launches)):
        doubt = f"{result.reason}, but without warm-up (-w 0): NCCL connects while it is timed"
    if doubt:
        result = replace(result, status=Status.UNKNOWN, reason=doubt)
    return result, launches
