"""The symptom table and the rules as one Markdown document, `docs/symptoms.md`: written by `busbw
why --list --markdown`."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.parsers.findings.rules.rule import Rule
from busbw.parsers.findings.table import Signal, Step, Symptom, SymptomTable, Weight

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
_WEIGHTS = {
    Weight.CERTAIN: "proves it",
    Weight.STRONG: "makes it likely",
    Weight.WEAK: "speaks for it",
    Weight.REQUIRES: "must hold",
    Weight.EXCLUDES: "rules it out",
}

_HEAD = """# Symptoms, causes, fixes

What `busbw why` can find, by the stage where it shows first. This page is generated from the table it uses
(`busbw why --list --markdown`); `busbw why ID` prints one entry. {entries} entries, {rules} rules.

A sign *proves* a cause, *makes it likely*, *speaks for* it, *must hold* or *rules it out*. Of several causes the surer comes first; what
follows from another finding comes after it. Every finding shows the line it rests on and what would make it surer.
"""


def markdown(table: SymptomTable, rules: Sequence[Rule]) -> str:
    """The document; the same text for the same table."""
    out = [_HEAD.format(entries=len(table.symptoms), rules=len(rules))]
    for stage in STAGES:
        entries = [symptom for symptom in table.symptoms if symptom.stage == stage]
        if entries:
            out.append(f"## {stage.capitalize()}\n")
            out += [_entry(symptom) for symptom in entries]
    out.append("## Rules\n\nJudgements over several lines, which no single sign can make.\n")
    out.append("\n".join(f"- **{rule.name}**: {_plain(rule.says)}" for rule in rules) + "\n")
    return "\n".join(out)


def _entry(symptom: Symptom) -> str:
    shows = ", ".join((symptom.stage, *symptom.also_stages))
    lines = [
        f"### {symptom.id}",
        "",
        (
            f"**{_plain(symptom.title)}** ({symptom.severity.value}; {symptom.role.value}; shows at"
            f" {shows}; fabrics: {', '.join(symptom.fabrics)})"
        ),
        "",
        f"Cause: {_plain(symptom.cause)} {_plain(symptom.explanation)}",
        "",
        *[f"- {_sign(signal)}" for signal in symptom.signals],
        "",
        *[_step(number, step) for number, step in enumerate(symptom.fix, 1)],
    ]
    if symptom.verify:
        lines += ["", "Verify: " + "; ".join(f"`{_code(step)}`" for step in symptom.verify)]
    if symptom.settle:
        lines += ["", "To be surer: " + "; ".join(f"`{_code(step)}`" for step in symptom.settle)]
    if symptom.explains:
        lines += ["", "Explains: " + ", ".join(f"[{name}](#{name})" for name in symptom.explains)]
    lines += ["", f"Trust: {_plain(symptom.trust)}"]
    if symptom.references:
        lines += [
            "",
            "See: "
            + "; ".join(_reference(title, address) for title, address in symptom.references),
        ]
    return "\n".join(lines) + "\n"


def _sign(signal: Signal) -> str:
    told = signal.matches[0].strip() if signal.matches else signal.expr or ""
    return f"{_WEIGHTS[signal.weight]}: {signal.source}: `{_code(told)}`"


def _step(number: int, step: Step) -> str:
    notes = ([f"needs {step.needs}"] if step.needs != "user" else []) + (
        ["disrupts running jobs"] if step.disruptive else []
    )
    commands = "".join(f"\n   `{_code(command)}`  " for command in step.run)
    return f"{number}. {_plain(step.do)}{' (' + ', '.join(notes) + ')' if notes else ''}{commands}"


def _reference(title: str, address: str) -> str:
    return (
        f"[{_plain(title)}]({address})"
        if address.startswith("http")
        else f"{_plain(title)} ({_plain(address)})"
    )


def _plain(text: str) -> str:
    """Text in which no sign of Markdown means anything."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|" else char for char in text)


def _code(text: str) -> str:
    """Text for a code span: backquotes cannot stand in it."""
    return text.replace("`", "'").replace("\n", " ")
