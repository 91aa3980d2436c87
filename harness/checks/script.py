"""The one script a node is asked with, and the way its answer is taken apart.

POSIX sh, nothing installed, nothing changed. Every section prints a marker on both streams before
and after it, so that standard output and standard error can be told apart without a temporary file,
and noise of a login shell falls outside all sections.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Mapping

from busbw import shell
from busbw.checks import (
    MAX_ERROR_BYTES,
    MAX_OUTPUT_BYTES,
    CheckFamily,
    NodeAnswer,
    Policy,
    Section,
    SectionOutput,
)
from busbw.model import Command, CommandResult, Node
from busbw.text import whole_number

_SMALL_S = 15
_UPTIME = re.compile(r"\d+\.\d+")


def sections(families: Iterable[CheckFamily], policy: Policy | None = None) -> tuple[Section, ...]:
    """The sections to ask; with a policy only those that serve a check it asks for, and those that
    are always asked."""
    every = (section for family in families for section in family.sections)
    return tuple(
        s
        for s in every
        if policy is None
        or not s.serves
        or s.name in policy.sections
        or any(policy.is_required(check_id) is not None for check_id in s.serves)
    )


def build(
    families: Iterable[CheckFamily],
    boundary: str,
    timeout_s: float,
    at_most_s: int | None = None,
    *,
    policy: Policy | None = None,
    sudo: bool = False,
) -> Command:
    """The script as one command. `boundary` is a word that the output will not contain by chance:
    the run's id.

    `at_most_s` shortens the limit of every section; None = each at its own. `policy` leaves out
    what it does not ask for; None = nothing. `sudo` puts `sudo -n` before what only root may see,
    where the user is not root.
    """
    probes = [
        dataclasses.replace(s, timeout_s=min(s.timeout_s, at_most_s or s.timeout_s))
        for s in sections(families, policy)
    ]
    if at_most_s is not None:
        # Who has little time asks first for what decides. The sort is stable: what a section comes
        # after stays before it.
        probes.sort(key=lambda s: not _decides(s, policy))
    right = "S=; [ \"$(id -u)\" = 0 ] || S='sudo -n'" if sudo else "S="
    lines = [
        f"B={shlex.quote(boundary)}; {right}; K={MAX_OUTPUT_BYTES}; E={MAX_ERROR_BYTES}",
        shell.load("busbw.checks", "prologue.sh").rstrip("\n"),
        *_together([s for s in probes if s.small], at_most_s or _SMALL_S),
    ]
    lines += [_line(section) for section in probes if not section.small]
    return Command(
        argv=("sh", "-s"),
        stdin=("\n".join([*lines, "mark done", ""])).encode(),
        timeout_s=timeout_s,
        label="preflight",
    )


def _decides(section: Section, policy: Policy | None) -> bool:
    return (
        policy is None
        or not section.serves
        or section.name in policy.sections
        or any(policy.is_required(check_id) is True for check_id in section.serves)
    )


def _together(small: list[Section], limit_s: int) -> list[str]:
    each_s = max((section.timeout_s for section in small), default=limit_s)
    one_by_one = f'while [ $# -gt 1 ]; do small "$1" {each_s} "$2"; shift 2; done'
    return [
        "set --",
        *(f'set -- "$@" {shlex.join((section.name, section.shell))}' for section in small),
        f'limit {limit_s} sh -c "$G" sh "$@" </dev/null || {one_by_one}',
    ]


def _line(section: Section) -> str:
    more = (
        (section.after or "-", section.tool)
        if section.tool
        else (section.after,)
        if section.after
        else ()
    )
    return f"ask {shlex.join((section.name, str(section.timeout_s), section.shell, *more))}"


def split(node: Node, result: CommandResult, boundary: str, artefact: str) -> NodeAnswer:
    """One node's answer, section by section. What is missing is missing, with the reason in
    `problem`."""
    stdout = result.out()
    errors = _errors(result.err(), boundary)
    sections = _sections(stdout, boundary, errors)
    complete = f"\n@@{boundary} done" in stdout
    problem = None
    if not complete:
        ended = (
            f"exit status {result.exit_status}"
            if result.exit_status is not None
            else "no exit status"
        )
        problem = result.problem or f"the script did not run to its end ({ended})"
    return NodeAnswer(node=node, sections=sections, artefact=artefact, problem=problem)


def _sections(text: str, boundary: str, errors: Mapping[str, str]) -> dict[str, SectionOutput]:
    """What each section printed: from its marker to the next. Every marker stands on a line of its
    own, behind a newline of its own.

    A run of a thousand nodes has ten thousands of them: they are cut apart by searching for fixed
    texts only.
    """
    outputs: dict[str, SectionOutput] = {}
    noise, *parts = text.split(f"\n@@{boundary} begin ")
    lines = 1 + noise.count("\n")
    for part in parts:
        head, _, rest = part.partition("\n")
        name, _, begun = head.partition(" ")
        body, _, tail = rest.partition(f"\n@@{boundary} ")
        word, ended, status, clock = (*tail.partition("\n")[0].split(" ", 3), "", "", "", "")[:4]
        complete = word == "end" and ended == name and whole_number(status) is not None
        if name:
            outputs[name] = SectionOutput(
                name=name,
                stdout=body,
                stderr=errors.get(name, ""),
                exit_status=int(status) if complete else None,
                # The newline before the marker, and its own.
                line_no=lines + 2,
                seconds=_between(begun, clock) if complete else None,
            )
        lines += 1 + part.count("\n")
    return outputs


def _errors(text: str, boundary: str) -> dict[str, str]:
    """What each section printed on standard error."""
    parts = (part.partition("\n") for part in text.split(f"\n@@{boundary} begin ")[1:])
    return {
        head.partition(" ")[0]: rest.partition(f"\n@@{boundary} ")[0] for head, _, rest in parts
    }


def _between(begun: str, ended: str) -> float | None:
    """Seconds between the node's uptime behind two markers; None = it does not say."""
    if not _UPTIME.fullmatch(begun) or not _UPTIME.fullmatch(ended):
        return None
    return round(float(ended) - float(begun), 2)


def limit_s(probes: Iterable[Section]) -> float:
    """The longest the script may take: every section at its own limit, and some for the shell."""
    return 10.0 + sum(section.timeout_s + 6 for section in probes)
