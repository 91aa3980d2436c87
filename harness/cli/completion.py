"""`busbw completion`: a static script for the shell, made from the parser itself, so that it never
lags behind the options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Option:
    """One option of a command."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Command:
    """One command, or a command below it (`lab up`)."""

    path: tuple[str, ...]
    help: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]
    """What may stand as a positional word: names of commands below, or the choices of an argument;
    () = a file."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw completion`."""
    parser.add_argument(
        "shell",
        choices=tuple(_SHELLS),
        help='bash: eval "$(busbw completion bash)"; zsh and fish alike, see their manuals',
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from busbw.cli import build_parser

    sys.stdout.write(script(build_parser(), args.shell))
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a parser for `bash`, `zsh` or `fish`."""
    return _SHELLS[shell](tuple(_walk(parser, ())))


def _walk(
    parser: argparse.ArgumentParser, path: tuple[str, ...], about: str = ""
) -> Iterable[_Command]:
    options, words, below = [], [], []
    for action in parser._actions:  # argparse has no public way to read a parser back
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            words += list(action.choices)
            below += [(name, inner, told.get(name, "")) for name, inner in action.choices.items()]
        elif action.option_strings:
            choices = tuple(str(choice) for choice in action.choices or ())
            options.append(
                _Option(
                    tuple(action.option_strings), _plain(action.help), action.nargs != 0, choices
                )
            )
        else:
            words += [str(choice) for choice in action.choices or ()]
    yield _Command(path, about, tuple(options), tuple(words))
    for name, inner, told_of in below:
        yield from _walk(inner, (*path, name), _plain(told_of))


def _plain(text: str | None) -> str:
    return (text or "").replace("%%", "%").replace("'", "’").replace("`", "").replace("\n", " ")


def _bash(found: tuple[_Command, ...]) -> str:
    paths = "|".join(f"'{' '.join(command.path)}'" for command in found if command.path)
    cases = []
    for command in found:
        names = " ".join(name for option in command.options for name in option.names)
        key = " ".join(command.path)
        cases.append(f"    '{key}') options='{names}'; words='{' '.join(command.words)}';;")
    values = [
        f"    '{' '.join(command.path)} {name}') words='{' '.join(option.choices)}'; options=;"
        " value=1;;"
        for command in found
        for option in command.options
        for name in option.names
        if option.takes_value
    ]
    return "\n".join(
        (
            "# bash completion of busbw",
            "_busbw() {",
            (
                "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path= word"
                " options= words= value="
            ),
            '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            f'    case "${{path:+$path }}$word" in {paths}) path="${{path:+$path }}$word";; esac',
            "  done",
            '  case "$path" in',
            *cases,
            "  esac",
            '  case "$path $prev" in',
            *values,
            "  esac",
            (
                '  if [[ $cur == -* && -z $value ]]; then COMPREPLY=($(compgen -W "$options" --'
                ' "$cur"))'
            ),
            '  elif [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            '  else compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur")); fi',
            "}",
            "complete -F _busbw busbw",
            "",
        )
    )


def _zsh(found: tuple[_Command, ...]) -> str:
    """zsh reads bash's form; its own would say the same thing twice."""
    return "# zsh completion of busbw\nautoload -U +X bashcompinit && bashcompinit\n" + _bash(
        found
    ).replace("compopt -o filenames; ", "")


def _fish(found: tuple[_Command, ...]) -> str:
    lines = ["# fish completion of busbw"]
    for command in found:
        seen = [f"__fish_seen_subcommand_from {word}" for word in command.path]
        deeper = (
            [f"not __fish_seen_subcommand_from {' '.join(command.words)}"]
            if command.words and _has_below(command, found)
            else []
        )
        when = f" -n '{'; and '.join((*seen, *deeper))}'" if seen or deeper else ""
        for word in command.words:
            about = next((each.help for each in found if each.path == (*command.path, word)), "")
            lines.append(f"complete -c busbw -f{when} -a '{word}' -d '{about}'")
        for option in command.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            value = (
                f" -x -a '{' '.join(option.choices)}'"
                if option.choices
                else " -r"
                if option.takes_value
                else ""
            )
            lines.append(f"complete -c busbw{when} {names}{value} -d '{option.help}'")
    return "\n".join(lines) + "\n"


def _has_below(command: _Command, found: tuple[_Command, ...]) -> bool:
    return any(each.path[:-1] == command.path and each.path for each in found)


_SHELLS: dict[str, Callable[[tuple[_Command, ...]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
