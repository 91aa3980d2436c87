"""The manual page from the command line's own parser: `python docs/tools/man.py OUT_DIRECTORY` writes
busbw.1 and one page for each command."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from busbw import cli

DATE = "2026"


def escaped(text: str) -> str:
    """Text of a line for roff."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return re.sub(r"(?m)^([.'])", r"\\&\1", plain)


def options(parser: argparse.ArgumentParser) -> list[str]:
    """A paragraph for each option and argument."""
    lines = []
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        head = formatter._format_action_invocation(action)
        lines += [".TP", f"\\fB{escaped(head)}\\fR"]
        if action.help:
            lines.append(escaped(formatter._expand_help(action)))
    return lines


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def page(name: str, parser: argparse.ArgumentParser, also: list[str]) -> str:
    """One page."""
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    lines = [
        f'.TH "{name.upper()}" "1" "{DATE}" "busbw" "User commands"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(' '.join((parser.description or name).split()))}",
        ".SH SYNOPSIS",
        escaped(usage),
    ]
    if own := options(parser):
        lines += [".SH OPTIONS", *own]
    for word, sub in commands(parser).items():
        lines += [f'.SS "{escaped(word)}"', escaped(" ".join((sub.description or "").split()))]
        if name != "busbw":
            lines += options(sub)
    if parser.epilog:
        lines += [".SH EXAMPLES", ".nf", escaped(parser.epilog.strip()), ".fi"]
    if name == "busbw":
        lines += [".SH EXIT STATUS", "0 pass; 1 measured and failed; 2 usage or inventory;"]
        lines += ["3 could not measure or not enough data; 130 interrupted."]
    lines += [".SH SEE ALSO", escaped(", ".join(f"{other}(1)" for other in also))]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """File name → page."""
    top = cli.build_parser()
    below = {f"busbw-{word}": sub for word, sub in commands(top).items()}
    made = {"busbw.1": page("busbw", top, sorted(below))}
    for name, parser in below.items():
        made[f"{name}.1"] = page(name, parser, ["busbw"])
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        (folder / file).write_text(text)
