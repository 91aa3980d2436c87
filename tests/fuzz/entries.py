"""Every function that takes text from outside, found by its signature, so that a new parser is
fuzzed without being listed.

A parser is a public `parse…`, `read…` or `load` function of the parsers whose first parameter is
text or bytes; the rest (inventories, playbooks, recorded artefacts, whole commands) is named below.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import busbw.parsers.fabric
import busbw.parsers.logs
import busbw.parsers.nccl_tests
import busbw.parsers.tools
from busbw import playbook
from busbw.building.recipe import parse_proof
from busbw.checks import network_path, pingpong, rails
from busbw.cli import main
from busbw.codec import parse_json
from busbw.errors import BusbwError, UsageError
from busbw.inventory import hostlist, select
from busbw.model import RunResult
from busbw.model.counters import CounterSnapshot
from busbw.parsers.tools import states
from busbw.playbook import contract
from busbw.store import plan
from busbw.store.artefacts import CaseArtefact, PreflightArtefact
from busbw.text import decoded
from busbw.transport import known_hosts, ssh_config
from busbw.triage import offline

_NAMES = re.compile(r"(?:parse|read)\w*|loads?")
_TEXT, _BYTES, _CHUNKS = "str", "bytes", "Iterable[bytes]"


@dataclass(frozen=True, slots=True)
class Entry:
    """One way in for text."""

    name: str
    call: Callable[[bytes], object]
    word: str = ""
    """What tests call it by."""
    weight: int = 4
    """How often it is tried among all, 1 to 4: what costs milliseconds by itself is tried less
    often."""


def entries() -> tuple[Entry, ...]:
    """All of them, by name."""
    found = [
        entry
        for package in (
            busbw.parsers.logs,
            busbw.parsers.nccl_tests,
            busbw.parsers.tools,
            busbw.parsers.fabric,
        )
        for entry in _of(package)
    ]
    found += [
        Entry("inventory", lambda data: select.read(_text(data), "nodes.yaml"), "own"),
        Entry("hostlist", lambda data: hostlist.expand(_text(data[:400])), "hostlist"),
        Entry(
            "playbook", lambda data: playbook.parse(_text(data), "plan.yaml", "plan"), "playbook", 1
        ),
        Entry(
            "contract",
            _of_file(lambda path: contract.load(path, frozenset({"all-reduce"}))),
            "contract",
            1,
        ),
        Entry(
            "known_hosts", lambda data: known_hosts.parse(_text(data), "known_hosts"), "known_hosts"
        ),
        Entry("ssh -G", _ssh_answer, "ssh_config"),
        Entry("proof of a build", lambda data: parse_proof("node1", decoded(data)), "parse_proof"),
        Entry("login probe", lambda data: network_path.parse_login(decoded(data)), "probe"),
        Entry("hello probe", lambda data: network_path.parse_hello(decoded(data)), "probe"),
        Entry(
            "listen probe", lambda data: network_path.parse_listen("node1", decoded(data)), "probe"
        ),
        Entry(
            "connect probe",
            lambda data: network_path.parse_connect("node1", decoded(data)),
            "probe",
        ),
        Entry("nccl probe", lambda data: network_path.parse_nccl(decoded(data)), "probe"),
        Entry("rails probe", lambda data: rails.parse("node1", decoded(data)), "probe_rails"),
        Entry("pingpong probe", lambda data: pingpong.parse(decoded(data)), "probe_pingpong"),
        Entry(
            "a node's evidence",
            lambda data: offline.of_text("node1", data, "node1.txt", None, None),
            "script",
        ),
        *(
            Entry(tool.name, lambda data, tool=tool: tool.parse(decoded(data)), "states")  # type: ignore[misc]
            for tool in states.TOOL
        ),
        *(
            Entry(
                f"{kind.__name__} as JSON",
                lambda data, kind=kind: parse_json(data, kind),
                kind.__name__,
                1,
            )  # type: ignore[misc]
            for kind in (
                CaseArtefact,
                PreflightArtefact,
                offline.LiveArtefact,
                RunResult,
                CounterSnapshot,
                plan.RunPlan,
            )
        ),
        Entry(
            "busbw read --json",
            _of_file(lambda path: _command("read", "--json", str(path))),
            "read",
            2,
        ),
        Entry("busbw read", _of_file(lambda path: _command("read", str(path))), "read", 1),
        Entry("busbw why", _of_file(lambda path: _command("why", str(path))), "why", 1),
    ]
    return tuple(sorted(found, key=lambda entry: entry.name))


def _of(package: ModuleType) -> Iterator[Entry]:
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, function in inspect.getmembers(module, inspect.isroutine):
            # A reader of lines is a method of the module's own LineFormat.
            own = inspect.ismethod(function) or function.__module__ == module.__name__
            if own and _NAMES.fullmatch(name):
                call = _caller(function)
                if call is not None:
                    yield Entry(f"{module.__name__.removeprefix('busbw.')}.{name}", call, info.name)


def _caller(function: Callable[..., object]) -> Callable[[bytes], object] | None:
    """How to give it bytes; None = it does not take text."""
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    kinds = [str(p.annotation) for p in required]
    if (
        not required
        or not any(kind in kinds[0] for kind in (_TEXT, _BYTES))
        or "dict" in kinds[0]
        or any(k != _TEXT for k in kinds[1:])
    ):
        return None

    def given(data: bytes) -> object:
        first: object = decoded(data)
        if _CHUNKS in kinds[0]:
            # In pieces that end anywhere, as a pipe gives them.
            first = (data[at : at + 1000] for at in range(0, len(data), 1000))
        elif kinds[0] == _BYTES:
            first = data
        others = [
            decoded(data) if p.name in ("after", "stderr", "kernel") else "node1"
            for p in required[1:]
        ]
        return function(first, *others)

    return given


def _ssh_answer(data: bytes) -> object:
    """ValueError is documented here: a port that is no number."""
    try:
        return ssh_config.parse(_text(data), destination="node1", local=ssh_config.LocalUser.here())
    except ValueError as error:
        raise UsageError(str(error)) from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _of_file(use: Callable[[Path], object]) -> Callable[[bytes], object]:
    def given(data: bytes) -> object:
        with tempfile.NamedTemporaryFile(suffix=".log") as file:
            file.write(data)
            file.flush()
            return use(Path(file.name))

    return given


def _command(*argv: str) -> int:
    """A whole command, and its exit status; what it prints has no control character but the line's
    end and the tab."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main(list(argv))
    printed = out.getvalue()
    bad = {character for character in printed if character < " " and character not in "\n\t"} | {
        c for c in printed if "\x7f" <= c < "\xa0"
    }
    if bad:
        raise AssertionError(f"busbw {argv[0]} prints the control characters {sorted(bad)!r}")
    if "--json" in argv:
        json.loads(printed.partition("\nbusbw: ")[0], parse_constant=_no_number)
    if status not in (0, 1, 2, 3):
        raise AssertionError(f"busbw {argv[0]} ended with exit status {status}")
    return status


def _no_number(name: str) -> object:
    raise AssertionError(f"the document holds {name}, which is not JSON")


DOCUMENTED = (BusbwError,)
"""All that may be raised."""
