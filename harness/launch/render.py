"""A command line as text to read and paste: one option per line, the reason of every variable in a
comment above. `bash -n` accepts it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from busbw.fabrics.fabric import MpiOption
from busbw.inventory.hostlist import fold
from busbw.launch.choose import launchers
from busbw.model import Invocation
from busbw.units import format_duration

_IN_ENV = "OMPI_MCA_"


def render(invocation: Invocation, options: tuple[MpiOption, ...] = ()) -> str:
    """The invocation as shell text that ends in a newline. `options`: MCA parameters whose reasons
    are told where they are set."""
    nodes = "1 node" if len(invocation.nodes) == 1 else f"{len(invocation.nodes)} nodes"
    limit = format_duration(invocation.timeout_s)
    lines = [
        _comment(
            f"{invocation.case_id}: {invocation.nranks} ranks on {nodes} {fold(invocation.nodes)},"
            f" ended after {limit}"
        )
    ]
    for variable in invocation.env:
        lines.append(
            _comment(
                f"{variable.name}={variable.value}  from {variable.origin}:"
                f" {variable.why}{_title(variable.source)}"
            )
        )
    values = _mca_values(invocation.argv)
    set_here = (option for option in options if option.name in values)
    lines += [
        _comment(f"{option.name}={values[option.name]}  {option.why}{_title(option.source)}")
        for option in set_here
    ]
    return "\n".join([*lines, " \\\n  ".join(_cut(invocation.argv))]) + "\n"


def _mca_values(argv: tuple[str, ...]) -> Mapping[str, str]:
    triples = zip(argv, argv[1:], argv[2:], strict=False)
    from_variables = (
        word.removeprefix(_IN_ENV).partition("=") for word in argv if word.startswith(_IN_ENV)
    )
    return {name: value for flag, name, value in triples if flag in ("--mca", "--prtemca")} | {
        name: value for name, _, value in from_variables
    }


def _title(source: str) -> str:
    """The title of a source; its address is in the report."""
    return f" [{source.partition(', http')[0]}]" if source else ""


def _comment(text: str) -> str:
    """One comment line, whatever the text holds."""
    return "# " + "".join(letter if letter.isprintable() else "?" for letter in text)


def _cut(argv: tuple[str, ...]) -> list[str]:
    """Options with their words, quoted, one per line."""
    words_after = dict(pair for each in launchers().values() for pair in each.option_words)
    lines: list[list[str]] = []
    missing = 0
    for word in argv:
        if missing > 0:
            lines[-1].append(word)
            missing -= 1
        else:
            lines.append([word])
            is_option = word.startswith("-") and "=" not in word
            missing = words_after.get(word, 1) if is_option else 0
    return [" ".join(shlex.quote(word) for word in line) for line in lines]
