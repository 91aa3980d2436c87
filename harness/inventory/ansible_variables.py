"""The variables of one Ansible host as a node: which are read, which are left to Ansible, which
were probably misspelt.

Read are the connection variables (`ansible_host`, `_port`, `_user`, `_ssh_private_key_file`,
`_ssh_common_args`) and busbw's own (`busbw_gpus`, `busbw_slots`, `busbw_rails`,
`busbw_label_NAME`). Written against ansible-core 2.19.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.codec import Problem
from busbw.inventory.hostlist import LEGAL_NAME
from busbw.model import Node


@dataclass(frozen=True, slots=True)
class Var:
    """A variable where it was written."""

    text: str | None
    """Its value as text; None = it is a mapping, nothing, or secret."""
    vault: bool
    """True = encrypted: nobody here can read it."""
    path: str
    line: int | None
    column: int | None
    items: tuple[str, ...] | None = None
    """Its value as a list; None = it is not one."""

    def problem(self, what: str) -> Problem:
        """A problem at this variable."""
        return Problem(self.path, what, self.line, self.column)


_READ = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "identity_file",
    "ansible_private_key_file": "identity_file",
    "ansible_ssh_common_args": "arguments",
    "ansible_ssh_extra_args": "arguments",
    "busbw_gpus": "gpus",
    "busbw_slots": "slots",
    "busbw_rails": "rails",
}
"""Later names of one kind win over earlier ones."""
_LABEL = "busbw_label_"
_SECRETS = (
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_become_password",
    "ansible_become_pass",
)
_TEMPLATE = re.compile(r"\{\{|\{%")


def node(
    name: str,
    variables: Mapping[str, Var],
    groups: tuple[str, ...],
    problems: list[Problem],
    notes: list[str],
) -> Node | None:
    """The node; what is wrong goes to `problems`, what was noticed to `notes`. None = the host is
    not reached over ssh."""
    connection = variables.get("ansible_connection")
    if connection is not None and connection.text in ("local", "docker", "podman", "winrm", "psrp"):
        notes.append(f"{name} is left out: ansible_connection={connection.text}")
        return None
    misspelt = [_misspelt(key, variable) for key, variable in variables.items()]
    problems += [problem for problem in misspelt if problem is not None]
    notes += [
        f"{variables[key].path}: {key} is not read; log in with a key or the agent"
        for key in _SECRETS
        if key in variables
    ]
    read = {
        key: variable
        for key, variable in variables.items()
        if key in _READ or key.startswith(_LABEL)
    }
    unreadable = {
        key: why for key, variable in read.items() if (why := _unreadable(variable)) is not None
    }
    problems += [read[key].problem(f"{key} {why}") for key, why in unreadable.items()]
    usable = {key: variable for key, variable in read.items() if key not in unreadable}
    values = {kind: usable[key] for key, kind in _READ.items() if key in usable}
    labels = {
        key.removeprefix(_LABEL): variable.text or ""
        for key, variable in usable.items()
        if key.startswith(_LABEL)
    }
    if groups:
        labels["groups"] = ",".join(groups)
    options = _ssh_options(
        [usable[key] for key in _READ if _READ[key] == "arguments" and key in usable], problems
    )
    address = _text(values.get("address"))
    return Node(
        name=name,
        address=address if address != name else None,
        user=options.pop("User", None) or _login(values.get("user"), problems),
        port=_number(values.get("port"), 65535, problems),
        identity_file=_text(values.get("identity_file")) or options.pop("IdentityFile", None),
        ssh_options=tuple(sorted(options.items())),
        gpus=_number(values.get("gpus"), 1024, problems),
        slots=_number(values.get("slots"), 1024, problems),
        rails=_rails(values.get("rails"), problems),
        labels=tuple(sorted(labels.items())),
    )


def _misspelt(key: str, variable: Var) -> Problem | None:
    """A name that nobody reads and that is one slip away from one that is read."""
    if key in _READ or key.startswith(_LABEL) or not key.startswith(("ansible_", "busbw_")):
        return None
    close = difflib.get_close_matches(key, _READ, n=1, cutoff=0.9)
    if close and key not in _SECRETS:
        return variable.problem(f"unknown key {key!r}; did you mean {close[0]!r}?")
    if key.startswith("busbw_"):
        return variable.problem(
            f"unknown key {key!r}; known: {', '.join(k for k in _READ if k.startswith('busbw_'))},"
            f" {_LABEL}NAME"
        )
    return None


def _unreadable(variable: Var) -> str | None:
    if variable.vault:
        return (
            "is encrypted with Ansible Vault, and busbw reads no secrets: put it into ssh_config,"
            " or take it out of the vault"
        )
    if variable.text is None:
        return "is neither text nor a number"
    if _TEMPLATE.search(variable.text):
        return (
            "is a template, and busbw does not run Ansible: give it the output of"
            " `ansible-inventory --list`"
        )
    return None


def _ssh_options(arguments: list[Var], problems: list[Problem]) -> dict[str, str]:
    """`-o Name=value`, `-J jump`, `-i key`, `-l user` of ansible_ssh_common_args, as options of
    ssh."""
    options: dict[str, str] = {}
    for variable in arguments:
        try:
            words = shlex.split(variable.text or "")
        except ValueError as error:
            problems.append(variable.problem(f"ssh arguments cannot be read: {error}"))
            continue
        while words:
            word = words.pop(0)
            flag, value = word[:2], word[2:]
            if flag not in ("-o", "-J", "-i", "-l") or not (value or words):
                problems.append(
                    variable.problem(f"ssh argument {word!r} is not read; put it into ssh_config")
                )
                break
            value = value or words.pop(0)
            option, _, setting = re.sub(r"\s*=\s*|\s+", "=", value, count=1).partition("=")
            if flag == "-o":
                options[option] = setting
            else:
                options[{"-J": "ProxyJump", "-i": "IdentityFile", "-l": "User"}[flag]] = value
    return options


def _text(variable: Var | None) -> str | None:
    return variable.text or None if variable is not None else None


def _login(variable: Var | None, problems: list[Problem]) -> str | None:
    text = _text(variable)
    if variable is not None and text is not None and not LEGAL_NAME.match(text):
        problems.append(variable.problem(f"{text!r} is not a login name"))
        return None
    return text


def _number(variable: Var | None, most: int, problems: list[Problem]) -> int | None:
    text = _text(variable)
    if variable is None or text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= most:
        problems.append(variable.problem(f"expected a number from 1 to {most}, found {text!r}"))
        return None
    return int(text)


def _rails(variable: Var | None, problems: list[Problem]) -> tuple[str, ...]:
    if variable is None:
        return ()
    rails = variable.items
    if rails is None:
        rails = tuple(filter(None, re.split(r"[,\s]+", variable.text or "")))
    bad = [rail for rail in rails if not LEGAL_NAME.match(rail)]
    if bad:
        problems.append(variable.problem(f"{bad[0]!r} is not the name of a network device"))
        return ()
    return rails
