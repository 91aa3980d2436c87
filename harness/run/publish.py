"""Everything derived: result, report, summary, JUnit, metrics, commands, rebuilt from `raw/` alone;
the same `raw/` gives the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from dataclasses import dataclass

from busbw import assess
from busbw.checks import occupied
from busbw.checks.software import facts
from busbw.codec import dump_json
from busbw.errors import RunDirError
from busbw.model import RunResult
from busbw.reports import html, junit, markdown, metrics
from busbw.reports.input import Excerpt, Origin, ReportInput, table_of
from busbw.reports.redact import Redactor, for_cluster
from busbw.store import artefacts, own_plans
from busbw.store.artefacts import CaseArtefact
from busbw.store.run_directory import RunDir
from busbw.survey import link_baseline

_PAGE = "report.html"
EXCERPT_BYTES = 64 * 1024
_OF_THE_HEAD = ("stdout.txt", "stderr.txt", "result.json", "outcome.json")
"""Of a launch; its other files are a node's."""
SHELL_HEADER = (
    "#!/bin/sh\n# Every launch of this run, in order, as the head node ran it. The binaries must"
    " stand where the run put them.\n"
)


def publish(run: RunDir) -> RunResult:
    """Judge the run and write every derived file."""
    result = assess.derive(run)
    for name, text in _files(_input(run, result)).items():
        run.write_derived(name, text)
        if name == _PAGE:
            own_plans.note(text.encode())
    return result


def page(run: RunDir) -> bytes:
    """The report as it lies there, where this account wrote it. One from elsewhere may hold anything:
    it is made anew from `raw/`.

    Raises:
        BusbwError: it cannot be made anew.
    """
    with contextlib.suppress(FileNotFoundError, RunDirError):
        content = run.read_derived(_PAGE)
        if own_plans.is_own(content):
            return content
    return html.render(_input(run, assess.derive(run))).encode()


@dataclass(frozen=True)
class Redacted:
    """A run with aliases in the place of names."""

    report: ReportInput
    files: dict[str, str]
    """Every derived file by name."""
    redactor: Redactor
    """Knows the names: for `redacted-names.csv`, which stays at home."""


def redacted(run: RunDir) -> Redacted:
    """Judge the run, then replace names and credentials in everything that travels. The verdict is
    reached before anything is replaced."""
    result = assess.derive(run)
    plan = assess.load_plan(run)
    answers = assess.answers(run, plan)
    known = {name for answer in answers if (name := facts(answer).host_name)}
    redactor = for_cluster(plan.cluster, sorted(known), occupied.users(answers))
    plain = _input(run, result)
    redactor.learn(plain)
    report = redactor.record(plain)
    return Redacted(report, _files(report), redactor)


def publish_redacted(run: RunDir) -> tuple[RunResult, Redactor]:
    """Write the derived files into `redacted/`, with aliases in the place of names, which are
    returned. `raw/` has the names and stays at home."""
    copy = redacted(run)
    for name, text in copy.files.items():
        run.write_derived(f"redacted/{name}", text)
    return copy.report.result, copy.redactor


def _input(run: RunDir, result: RunResult) -> ReportInput:
    commands = SHELL_HEADER + "".join(f"\n{command}" for command in result.commands)
    return ReportInput(result, _excerpts(run, result), commands, _origins(run, result))


def _origins(run: RunDir, result: RunResult) -> tuple[Origin, ...]:
    """Who made the artefacts: the head what a launch printed, a node the files of its name."""
    head = assess.load_plan(run).cluster.head
    origins = []
    for artefact in _evidence(result):
        stem = artefact.rpartition("/")[2].partition(".")[0]
        for node in result.nodes:
            if stem == node or stem.endswith(f"-{node}"):
                origins.append(Origin(artefact, node, "", ""))
    shell = link_baseline.commands(run)
    for path, client in link_baseline.clients(run):
        pair = path.rpartition("/")[2].removesuffix(".txt").removeprefix(f"{client}-")
        command = "".join(text for text in shell if f" between {client} and {pair}\n" in text)
        origins = [each for each in origins if each.artefact != path]
        origins.append(Origin(path, client, "", command))
    for outcome in result.cases:
        folder = f"cases/{outcome.case.id}/"
        kept = artefacts.load(run, f"{folder}outcome.json", CaseArtefact)
        if kept is not None:
            command = shlex.join(kept.invocation.argv)
            for name in _OF_THE_HEAD:
                origins.append(Origin(f"raw/{folder}{name}", head, kept.began, command))
    return tuple(origins)


def _evidence(result: RunResult) -> tuple[str, ...]:
    """The artefacts that findings point at, each once."""
    every = [e.artefact for finding in result.findings for e in finding.evidence]
    return tuple(dict.fromkeys(every))


def _files(report: ReportInput) -> dict[str, str]:
    """Every derived file by name."""
    return {
        "run.json": dump_json(report.result),
        "commands.sh": report.commands_text,
        "summary.md": markdown.render(report),
        "junit.xml": junit.render(report.result),
        "metrics.prom": metrics.render(report.result),
        _PAGE: html.render(report),
    }


def _excerpts(run: RunDir, result: RunResult) -> tuple[Excerpt, ...]:
    """The artefacts that findings and cases point at, each cut in the middle where it is long."""
    paths = list(_evidence(result))
    paths += [
        path for outcome in result.cases for path in outcome.artefacts if not path.endswith(".json")
    ]
    # A number read from a launch's JSON is shown beside the table that the launch printed.
    paths += [table_of(path) for path in paths]
    excerpts = []
    for path in dict.fromkeys(paths):
        # JSON artefacts hold the launch's environment: they stay in raw/ and are never printed into
        # a page that travels. A folder (`raw/cases`, no launch of which proves it) has no excerpt.
        # `Path.is_dir` ends with an error at a name that is too long.
        if not path.startswith("raw/") or path.endswith(".json") or os.path.isdir(run.path / path):
            continue
        content = run.kept(path)
        if content is not None:
            excerpts.append(Excerpt(path, _cut(content), hashlib.sha256(content).hexdigest()))
    return tuple(excerpts)


def _cut(content: bytes) -> str:
    if len(content) > EXCERPT_BYTES:
        # At line ends: half a name could not be replaced by its alias.
        half = EXCERPT_BYTES // 2
        begin, end = content[:half].rpartition(b"\n")[0], content[-half:].partition(b"\n")[2]
        excluded = len(content) - len(begin) - len(end)
        content = (
            begin + f"\n… {excluded} bytes left out here, all of it is in raw/ …\n".encode() + end
        )
    return content.decode("utf-8", "replace")
