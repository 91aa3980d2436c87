"""`BUSBW_*`: options of the command line that an environment sets once, for a shell, a CI job or a
login profile.

The command line overrides the environment, the environment `busbw.yaml`, and that the built-in
defaults. Variables set where and how to measure; an option that changes what a command does, such
as --resume or --force, never comes from a variable.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from busbw.errors import UsageError

OPTIONS = (
    "inventory",
    "nodes",
    "exclude",
    "transport",
    "forks",
    "connect_timeout",
    "profile",
    "ranks_per_node",
    "nccl_tests",
    "launcher",
    "contract",
    "budget",
    "out",
    "junit",
    "prom",
    "cluster",
    "csv",
    "strict",
    "sudo",
    "quiet",
    "verbose",
)
"""Options that a variable may set, by their names: `BUSBW_` and the name in capitals."""
_WHERE = ("inventory", "nodes")
"""Nodes on the command line override both variables."""
_YES = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
    "": False,
}


def variable(option: str) -> str:
    """The variable of an option.

    >>> variable("connect_timeout")
    'BUSBW_CONNECT_TIMEOUT'
    """
    return f"BUSBW_{option.upper()}"


def apply(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> dict[str, object]:
    """Make the variables that are set the defaults of a command's parser; returns them by option.

    Raises:
        UsageError: a value that the option itself would refuse.
    """
    values = {}
    for action in parser._actions:  # argparse has no public way to read a parser back
        name = variable(action.dest)
        if action.dest in OPTIONS and action.option_strings and environ.get(name):
            values[action.dest] = _value(action, name, environ[name])
    parser.set_defaults(**values)
    return values


def settle(args: argparse.Namespace, values: Mapping[str, object]) -> None:
    """Take back what the command line overrides as a whole: nodes that were named there, or
    --local."""
    named = [
        option
        for option in _WHERE
        if getattr(args, option, None) is not None
        and getattr(args, option) is not values.get(option)
    ]
    if named or getattr(args, "local", False):
        for option in (*_WHERE, "exclude"):
            if option in values and getattr(args, option) is values[option]:
                setattr(args, option, None)


def _value(action: argparse.Action, name: str, text: str) -> object:
    if action.nargs == 0:
        if action.dest == "verbose" and text in ("1", "2"):
            return int(text)
        if text.lower() in _YES:
            return _YES[text.lower()]
        raise UsageError(
            f"{name} is neither yes nor no",
            seen=f"{name}={text}",
            next_step=f"{name}=1, or unset {name}",
        )
    if action.choices is not None and text not in action.choices:
        raise UsageError(
            f"{name} is none of {', '.join(map(str, action.choices))}",
            seen=f"{name}={text}",
            next_step=f"unset {name}",
        )
    kind = action.type if callable(action.type) else str
    try:
        value: object = kind(text)
    except (ValueError, TypeError, argparse.ArgumentTypeError) as error:
        raise UsageError(
            f"{name} cannot be read", seen=f"{name}={text}: {error}", next_step=f"unset {name}"
        ) from error
    return value
