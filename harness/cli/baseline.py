"""`busbw baseline`: make a run the expectation of its regime, list such runs, take one back."""

from __future__ import annotations

import argparse
import getpass
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import options, write_message, write_text
from busbw.errors import BusbwError, UsageError

if TYPE_CHECKING:
    from busbw.model import RunResult
    from busbw.model.history import ComparableRun
    from busbw.store.run_directory import RunDir


def register(parser: argparse.ArgumentParser) -> None:
    """Options of all `busbw baseline` commands."""
    parsers = parser.add_subparsers(dest="baseline_command", metavar="COMMAND", required=True)
    accept = parsers.add_parser("accept", help="make a run the expectation of its regime")
    accept.add_argument("--anyway", action="store_true", help="also a run that did not pass")
    revoke = parsers.add_parser(
        "revoke", help="take that back; the run and the decision stay on record"
    )
    show = parsers.add_parser(
        "show", help="what a run stands for: regime, numbers, machine, who accepted it"
    )
    for own in (accept, revoke, show):
        options.add_run(own)
    for own in (accept, revoke):
        own.add_argument("--note", default="", metavar="TEXT", help="why, for those who come later")
    listing = parsers.add_parser("list", help="the accepted runs")
    options.add_out(listing)


def run(args: argparse.Namespace) -> int:
    """Run the `busbw baseline` command that was given."""
    return {"accept": _accept, "revoke": _revoke, "show": _show, "list": _list}[
        args.baseline_command
    ](args)


def _accept(args: argparse.Namespace) -> int:
    from busbw.cli.console import now
    from busbw.compare import accepted
    from busbw.model.history import Decision

    directory, result, past = _past(args.run)
    if past.verdict not in ("PASS", "WARN") and not args.anyway:
        raise UsageError(
            f"run {past.run_id} is {past.verdict}, no baseline for later runs",
            seen=f"verdict {past.verdict}",
            next_step="accept a run that passed, or say --anyway and why with --note",
        )
    if not past.numbers and not past.contrasts:
        raise UsageError(
            f"run {past.run_id} measured nothing",
            seen="no case over all nodes has a number (launches in turn and groups are none)",
            next_step="accept another run",
        )
    if not args.anyway:
        _require_not_slower(directory, past)
    before = accepted.standing(directory)
    accepted.decide(directory, Decision(now(), getpass.getuser(), args.note))
    for warning in _warnings(result, args.run):
        write_message(f"busbw: warning: {warning}\n")
    again = f" (it was accepted before, {before.at} by {before.by})" if before else ""
    write_text(
        f"accepted {past.run_id}: {_regime(past)}, {len(past.numbers) + len(past.contrasts)}"
        f" numbers{again}\n"
    )
    return 0


def _require_not_slower(directory: RunDir, past: ComparableRun) -> None:
    """Nothing where it is as fast as the accepted runs beside it, or cannot be told to be slower. A
    slower expectation would let later runs lose as much without a word."""
    from busbw.cli.diff import others_of
    from busbw.compare import accepted, comparable
    from busbw.model import Status
    from busbw.reports import compare

    known = accepted.accepted_runs(directory.path.resolve().parent)
    others = others_of(past, [each for each in known if each.run.path != directory.path])
    slower = comparable.diff(past, others) if others else None
    if slower is not None and slower.status is Status.FAIL:
        raise UsageError(
            f"run {past.run_id} is slower than the accepted runs: it would lower the expectation",
            seen=compare.lines(slower)[0],
            next_step="find out why first; or say --anyway and why with --note",
        )


def _warnings(result: RunResult, run: Path) -> Iterator[str]:
    """What later runs will be held to, though it is not as it should be."""
    from busbw.model import Status
    from busbw.reports import phrases

    for each in result.findings:
        if each.id == "measured-while-busy":
            advice = f"later runs on free CPUs will look faster; busbw baseline revoke {run}"
            yield f"{each.title}: {advice}"
        elif each.status not in (Status.PASS, Status.SKIPPED):
            yield f"accepted with {phrases.state(each.status)}: {each.title}"


def _revoke(args: argparse.Namespace) -> int:
    from busbw.cli.console import now
    from busbw.compare import accepted
    from busbw.model.history import Decision
    from busbw.store import run_directory

    # Not judged first: a run that can no longer be read must be got rid of, too.
    directory = run_directory.open_existing(args.run)
    if accepted.standing(directory) is None:
        raise UsageError(
            f"run {directory.run_id} is not accepted",
            seen="no standing decision in accepted.json",
            next_step="busbw baseline list",
        )
    accepted.decide(directory, Decision(now(), getpass.getuser(), args.note, revoked=True))
    write_text(f"revoked {directory.run_id}\n")
    return 0


def _show(args: argparse.Namespace) -> int:
    from busbw.compare import accepted
    from busbw.reports.safe import one_line
    from busbw.units import format_bandwidth, format_size

    directory, _, past = _past(args.run)
    lines = [f"{past.run_id}  {past.verdict}  {_regime(past)}"]
    for decision in accepted.read(directory):
        word = "revoked" if decision.revoked else "accepted"
        lines.append(
            f"  {word} {decision.at} by"
            f" {decision.by}{': ' + decision.note if decision.note else ''}"
        )
    for number in past.numbers:
        middle = statistics.median(number.busbw_gb_s)
        count = len(number.busbw_gb_s)
        launches = f"{count} launch{'es' if count > 1 else ''}"
        lines.append(
            f"  {number.collective:<15} {format_size(number.size_bytes):>9} "
            f" {format_bandwidth(middle):>14}  {launches}  {number.options}"
        )
    for contrast in past.contrasts:
        ratio = statistics.median(contrast.ratios)
        size = format_size(contrast.size_bytes)
        lines.append(
            f"  {contrast.collective:<15} {size:>9}  {', '.join(contrast.treatment)} over control"
            f" nodes {ratio:.1%}"
        )
    lines += [f"  {name:<24} {value}" for name, value in past.machine]
    write_text("".join(f"{one_line(line)}\n" for line in lines))
    return 0


def _list(args: argparse.Namespace) -> int:
    from busbw.compare import accepted
    from busbw.reports.safe import one_line

    found = accepted.accepted_runs(args.out)
    for each in found:
        decision = each.decision
        who = (
            f"{decision.at[:10]} by {decision.by}{': ' + decision.note if decision.note else ''}"
            if decision
            else ""
        )
        try:
            regime = (
                f"cannot be read: {each.problem}"
                if each.problem
                else _regime(_past(each.run.path)[2])
            )
        except BusbwError as error:
            regime = f"cannot be read: {error.what.splitlines()[0]}"
        write_text(f"{one_line(f'{each.run.run_id}  {regime}  {who}')}\n")
    if not found:
        write_text(f"no accepted run in {args.out}; busbw baseline accept RUN makes one\n")
    return 0


def _past(path: Path) -> tuple[RunDir, RunResult, ComparableRun]:
    """The run, its result, and what other runs see of it."""
    from busbw import assess
    from busbw.compare import accepted, comparable
    from busbw.store import run_directory

    directory = run_directory.open_existing(path)
    directory.require_undamaged()
    result = assess.derive(directory)
    return directory, result, comparable.of_result(result, accepted.standing(directory))


def _regime(past: ComparableRun) -> str:
    regime = past.regime
    emulated = ", emulated" if regime.emulated else ""
    return f"{regime.profile}, {regime.nodes} nodes, {regime.ranks} ranks, {regime.gpus}{emulated}"
