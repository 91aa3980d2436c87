"""The catalogue of findings: every id that busbw prints, with its cause, what it looks like, why it
happens and how to fix it.

The entries are in the YAML files beside this module, one file per layer. Most have signals: lines
and figures that `diagnose` looks for. Entries of the roles `finding` and `check` have none: busbw's
own judges and checks report them, and take the general title, cause and fix from here.

This is the one loader: it checks every entry, compiles nothing and scans nothing. Adding a finding
is adding one entry; its `matches` and `rejects` are its test.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from busbw import codec
from busbw.errors import ReadError
from busbw.model import Finding, Fix
from busbw.parsers.findings import expr
from busbw.parsers.findings.gpu_words import Gpus, fixes_for
from busbw.table_cache import cached


class Weight(StrEnum):
    """What one matching signal is worth."""

    CERTAIN = "certain"
    """The line can mean nothing else."""
    STRONG = "strong"
    """On its own enough to call the cause likely."""
    WEAK = "weak"
    """Supports, or raises the question."""
    GUESS = "guess"
    """By what a line names and what is wrong with it (`things`): nobody read the line's own message."""
    REQUIRES = "requires"
    """A condition of the entry: where it is known not to hold the entry is out, where it is not
    known the entry stays possible."""
    EXCLUDES = "excludes"
    """Rules the entry out."""


class Role(StrEnum):
    """What kind of thing an entry is; it decides what it may be said of a log in which other things
    went wrong."""

    CAUSE = "cause"
    """Something broke: a line that reports it is a failure."""
    STATE = "state"
    """A condition of the machines that costs bandwidth, and with which a job runs to its end."""
    SETTING = "setting"
    """A choice somebody made; a cause only where the result says that it was a bad one."""
    SECONDARY = "secondary"
    """What other ranks report when one has failed: never a cause where one is known."""
    NOTE = "note"
    """Harmless, listed so that nobody looks for it."""
    FINDING = "finding"
    """A result of busbw's own measurements; the judge that reports it names the component."""
    CHECK = "check"
    """A check of `busbw check`, under the check's id."""


_MANY = 6
"""Entries that explain a general one. As first answers of batches 1 to 9 (docs/why.md) that were
likely, such entries were the cause in 33 of 53, the others in 228 of 265."""
_WITHOUT_SIGNALS = (Role.NOTE, Role.FINDING, Role.CHECK)
"""Roles of entries that nobody has to look for in a text."""


class Severity(StrEnum):
    """What it costs."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


STAGES = (
    "build",
    "launch",
    "preflight",
    "init",
    "bandwidth",
    "latency",
    "variance",
    "correctness",
    "stall",
)
"""Where a symptom shows, in the order of a day."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing to look for: a line of a text (`regex`) or a comparison of measured values
    (`expr`)."""

    source: str
    """Where it is usually found: `nccl-log`, `mpirun`, `dmesg`, `result`, `preflight:<check>`,
    `counter:<name>`… A line may stand anywhere."""
    weight: Weight
    regex: str | None = None
    """Python's syntax, case ignored, searched in one line."""
    expr: str | None = None
    matches: tuple[str, ...] = ()
    """Lines it must match."""


class EveryFabric(StrEnum):
    """Words in the place of a family: what nodes of every fabric have."""

    ANY = "any"
    NVLINK = "nvlink"
    PCIE = "pcie"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a repair."""

    needs: str
    do: str
    run: tuple[str, ...] = ()
    disruptive: bool = False
    fabrics: tuple[str, ...] = (EveryFabric.ANY,)
    """Names of families whose nodes have the tools of this step."""
    gpus: Gpus | None = None
    """Whose GPUs a node of this step has; None = anybody's."""

    def fix(self) -> Fix:
        """The step as the record that findings carry."""
        return Fix(self.do, self.run, self.needs, self.disruptive)


@dataclass(frozen=True, slots=True)
class Reason:
    """One of several causes of what an entry states: the message is the same for all of them."""

    id: str
    cases: int
    """Labelled cases in which it was the cause."""
    why: str
    """How it leads to the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry: a cause, what it looks like, what to do."""

    id: str
    title: str
    stage: str
    """Where it shows first: build, launch, preflight, init, bandwidth, latency, variance,
    correctness or stall."""
    role: Role
    cause: str
    explanation: str
    quotes: bool = False
    """It says no more than a line: the line's own words stand behind `cause`, where it is found."""
    fix: tuple[Step, ...] = ()
    """() only where `settle` says what would tell more."""
    fixed_as: str | None = None
    """The entry whose steps and verification come behind its own: one subject has one text."""
    fabrics: tuple[str, ...] = (EveryFabric.ANY,)
    """Names of families (`fabric.families`), or words of `EveryFabric`."""
    severity: Severity | None = None
    """None = the judge that reports it decides."""
    cases: int = 0
    """Labelled cases of batches 1 to 8 (docs/why.md) in which it is the cause; 0 = one or none. It
    decides between guesses from the same line, and nothing else."""
    signals: tuple[Signal, ...] = ()
    """() only for notes, and for the roles `finding` and `check`."""
    rejects: tuple[str, ...] = ()
    """Lines that none of its signals may match, taken from what it is easily confused with."""
    verify: tuple[str, ...] = ()
    trust: str = ""
    """How far the mapping holds and what it is confused with."""
    also_stages: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    """Entries that follow from this one: they are consequences wherever this one is found."""
    reasons: tuple[Reason, ...] = ()
    """What it may come from, for an entry whose message says what happened and not why."""
    settle: tuple[str, ...] = ()
    """What would raise the confidence: the command, or the log setting to run with next time."""
    references: tuple[tuple[str, str], ...] = ()
    """(title, address)."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All entries, sorted by id."""

    entries: tuple[Entry, ...]
    by_id: Mapping[str, Entry]
    consequences: Mapping[str, frozenset[str]]
    """What may follow from each entry, directly or through others. A chain ends at a secondary
    error: what such an error explains does not follow from all that leads to it."""
    general: frozenset[str]
    """Failures that so many entries explain that they are a consequence more often than others."""

    def get(self, entry_id: str) -> Entry:
        """The entry of that id.

        Raises:
            KeyError: there is none; the message names the likely one or lists them.
        """
        try:
            return self.by_id[entry_id]
        except KeyError:
            raise KeyError(codec.unknown("finding", entry_id, self.by_id)) from None


@functools.cache
def load() -> Catalogue:
    """The catalogue as packaged. Read once.

    Raises:
        ReadError: an entry is wrong; every problem with its file, line and column.
    """
    return cached("catalogue", _packaged)


def _packaged() -> Catalogue:
    files = sorted(
        (
            file
            for file in importlib.resources.files(__package__).iterdir()
            if file.name.endswith(".yaml")
        ),
        key=lambda file: file.name,
    )
    entries: list[Entry] = []
    for file in files:
        entries += parse(file.read_text(encoding="utf-8"), file.name)
    return assemble(entries)


def entry(finding_id: str) -> Entry:
    """The entry of the packaged catalogue with that id.

    Raises:
        KeyError: there is none; the message names the likely one.
    """
    return load().get(finding_id)


def fixes(
    finding_id: str, family: str = "", gpus: str = Gpus.NVIDIA, **values: str
) -> tuple[Fix, ...]:
    """The fix steps of an entry for a finding. A word in capitals that `values` names is replaced in
    texts and commands: `fixes("slow-node", NODE="gpu7")`.

    `family`: of the fabric; steps for other ones are left out. Empty = it is not known. `gpus`: of
    the nodes; steps for the other ones are left out, and the rest is said in their words.

    Raises:
        KeyError: no such entry.
    """
    known = entry(finding_id).fix
    steps = (step.fix() for step in known if _fits(step, family) and step.gpus in (None, gpus))
    return with_values(fixes_for(steps, Gpus(gpus)), **values)


def with_values(steps: tuple[Fix, ...], **values: str) -> tuple[Fix, ...]:
    """Fix steps with each word in capitals that `values` names replaced."""
    return tuple(
        replace(
            step,
            summary=_with_values(step.summary, values),
            commands=_all_with_values(step.commands, values),
        )
        for step in steps
    )


def _fits(step: Step, family: str) -> bool:
    return not family or EveryFabric.ANY in step.fabrics or family in step.fabrics


def _with_values(text: str, values: Mapping[str, str]) -> str:
    """The text with each word in capitals that `values` names replaced."""
    return re.sub(r"\b[A-Z]+\b", lambda match: values.get(match[0], match[0]), text)


def _all_with_values(texts: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(_with_values(text, values) for text in texts)


def filled(finding: Finding, **values: str) -> Finding:
    """The finding with cause, fix steps, verification and what would settle it from its entry,
    where it has none of its own. `values` as for `fixes`.

    Raises:
        KeyError: the catalogue has no entry for it.
    """
    known = entry(finding.id)
    return replace(
        finding,
        cause=finding.cause or _with_values(known.cause, values),
        fixes=finding.fixes or fixes(finding.id, **values),
        verify=finding.verify or _all_with_values(known.verify, values),
        would_settle=finding.would_settle or _all_with_values(known.settle, values),
    )


def parse(text: str, path: str) -> tuple[Entry, ...]:
    """The entries of one file. `path` names it in messages.

    Raises:
        ReadError: an entry is wrong.
    """
    return codec.load_yaml(text, path, tuple[Entry, ...], error=ReadError)


def assemble(entries: Iterable[Entry]) -> Catalogue:
    """A catalogue of these entries, after checking what holds between entries.

    Raises:
        ReadError: an id is there twice, an `explains` names none, a signal is both or neither of
        regex and expr, or an expression is wrong.
    """
    given = tuple(sorted(entries, key=lambda entry: entry.id))
    ordered = _with_shared_fixes(_with_reasons(given))
    by_id = {symptom.id: symptom for symptom in ordered}
    problems = [
        f"{symptom.id}: defined twice" for symptom in ordered if by_id[symptom.id] is not symptom
    ]
    for symptom in ordered:
        problems += [
            f"{symptom.id}: explains {codec.unknown('finding', name, by_id)}"
            for name in symptom.explains
            if name not in by_id
        ]
        if symptom.fixed_as is not None and symptom.fixed_as not in by_id:
            unknown = codec.unknown("finding", symptom.fixed_as, by_id)
            problems.append(f"{symptom.id}: fixed as {unknown}")
        for reason in symptom.reasons:
            if reason.id not in by_id:
                unknown = codec.unknown("finding", reason.id, by_id)
                problems.append(f"{symptom.id}: reason {unknown}")
        if not symptom.signals and symptom.role not in _WITHOUT_SIGNALS:
            problems.append(f"{symptom.id}: a {symptom.role.value} needs signals")
        for signal in symptom.signals:
            problems += _wrong(symptom.id, signal)
    if problems:
        raise ReadError("\n".join(problems), next_step="correct the entries in parsers/findings")
    consequences = {symptom.id: _consequences(symptom, by_id) for symptom in ordered}
    explained = Counter(name for symptom in ordered for name in symptom.explains)
    ends = {name for name, symptom in by_id.items() if symptom.role in (Role.CAUSE, Role.SECONDARY)}
    general = frozenset(name for name in ends if explained[name] >= _MANY)
    return Catalogue(ordered, by_id, consequences, general)


def _with_reasons(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries, each of which explains also those that name it as a reason."""
    explains: dict[str, list[str]] = {}
    for symptom in entries:
        for reason in symptom.reasons:
            explains.setdefault(reason.id, []).append(symptom.id)
    joined = []
    for symptom in entries:
        names = dict.fromkeys((*symptom.explains, *explains.get(symptom.id, ())))
        joined.append(replace(symptom, explains=tuple(names)))
    return tuple(joined)


def _with_shared_fixes(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries, each with the steps of the one that it is fixed as."""
    by_id = {symptom.id: symptom for symptom in entries}
    joined = []
    for symptom in entries:
        other = by_id.get(symptom.fixed_as or "")
        if other is not None:
            steps = dict.fromkeys((*symptom.fix, *other.fix))
            verify = dict.fromkeys((*symptom.verify, *other.verify))
            symptom = replace(symptom, fix=tuple(steps), verify=tuple(verify))
        joined.append(symptom)
    return tuple(joined)


def shares(symptom: Entry) -> dict[str, float]:
    """How often each reason was the cause, as a share: the labelled cases and one more for each
    reason and for causes that are not known (Laplace), so that few cases decide little."""
    whole = sum(reason.cases + 1 for reason in symptom.reasons) + 1
    return {reason.id: (reason.cases + 1) / whole for reason in symptom.reasons}


def _consequences(symptom: Entry, by_id: Mapping[str, Entry]) -> frozenset[str]:
    reached: set[str] = set()
    ahead = list(symptom.explains)
    while ahead:
        name = ahead.pop()
        if name in reached or name == symptom.id:
            continue
        reached.add(name)
        if by_id[name].role is not Role.SECONDARY:
            ahead += by_id[name].explains
    return frozenset(reached)


def _wrong(entry_id: str, signal: Signal) -> list[str]:
    if (signal.regex is None) == (signal.expr is None):
        return [f"{entry_id}: a signal has either regex or expr"]
    try:
        if signal.expr is not None:
            expr.parse(signal.expr)
    except ValueError as error:
        return [f"{entry_id}: {error}"]
    return []


@functools.cache
def compiled(regex: str) -> re.Pattern[str]:
    """A signal's pattern, ready to search a line with. Compiled when first needed: all of them
    would take as long as reading the table."""
    return re.compile(regex, re.IGNORECASE)
