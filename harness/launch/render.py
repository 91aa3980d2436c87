"""A command line as text to read and paste: one option per line, the reason of every variable in a
comment above. `bash -n` accepts it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from busbw.fabrics.profile import MpiOption
from busbw.inventory.hostlist import fold
from busbw.launch.choose import launchers
from busbw.model import Invocation
from busbw.units import counted, format_duration

_IN_ENV = "OMPI_MCA_"


def render(invocation: Invocation, options: tuple[MpiOption, ...] = ()) -> str:
    """The invocation as shell text that ends in a newline. `options`: MCA parameters whose reasons
    are shown where they are set."""
    nodes = counted(len(invocation.nodes), "node")
    limit = format_duration(invocation.timeout_s)
    ranks = f"{counted(invocation.nranks, 'rank')} on {nodes} {fold(invocation.nodes)}"
    lines = [_comment(f"{invocation.case_id}: {ranks}, ends after {limit} at the latest")]
    for variable in invocation.env:
        reason = f"from {variable.origin}: {variable.why}{_title(variable.source)}"
        lines.append(_comment(f"{variable.name}={variable.value}  {reason}"))
    values = _mca_values(invocation.argv)
    for each in invocation.unset:
        lines.append(
            _comment(f"{each.name} is unset  from {each.origin}: {each.why}{_title(each.source)}")
        )
    if invocation.setup is not None:
        need = "where it is there" if invocation.setup.optional else "required on every node"
        lines.append(
            _comment(
                f"each rank sources {invocation.setup.path}, {need}  from {invocation.setup.origin}"
            )
        )
    for option in options:
        if option.name in values:
            reason = f"{option.why}{_title(option.source)}"
            lines.append(_comment(f"{option.name}={values[option.name]}  {reason}"))
    lines.append(" \\\n  ".join(_cut(invocation.argv)))
    return "\n".join(lines) + "\n"


def _mca_values(argv: tuple[str, ...]) -> Mapping[str, str]:
    values = {}
    for flag, name, value in zip(argv, argv[1:], argv[2:], strict=False):
        if flag in ("--mca", "--prtemca"):
            values[name] = value
    for word in argv:
        if word.startswith(_IN_ENV):
            name, _, value = word.removeprefix(_IN_ENV).partition("=")
            values[name] = value
    return values


def _title(source: str) -> str:
    """The title of a source; its address is in the report."""
    title = source.partition(", http")[0]
    return f" [{title}]" if title else ""


def _comment(text: str) -> str:
    """One comment line, whatever the text holds."""
    return "# " + "".join(letter if letter.isprintable() else "?" for letter in text)


def _cut(argv: tuple[str, ...]) -> list[str]:
    """Options with their words, quoted, one per line."""
    words_after: dict[str, int] = {}
    for launcher in launchers().values():
        words_after.update(launcher.option_words)
    lines: list[str] = []
    missing = 0
    for word in argv:
        if missing > 0:
            lines[-1] += f" {shlex.quote(word)}"
            missing -= 1
            continue
        lines.append(shlex.quote(word))
        if word.startswith("-") and "=" not in word:
            missing = words_after.get(word, 1)
    return lines
