"""Which answers are alike: equal but for the serial numbers of their parts. Most nodes of a cluster answer alike and are judged once."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from busbw.preflight import SectionOutput

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

_SERIALS = (
    ("GPU-", re.compile(r"GPU-[0-9a-f-]{32,36}"), "GPU-0"),
    ("\t", re.compile(r"\t(?:[0-9a-f]{16}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?=\n)"), "\t0000000000000000"),
    ("port_lid:", re.compile(r"port_lid:\s+\d+"), "port_lid: 0"),
    ("ffff:", re.compile(r"ffff:[0-9a-f]{4}:[0-9a-f]{4}(?= )"), "ffff:0000:0000"),
)
"""(what a text without it need not be searched for, the serial, its stand-in): GPUs, GUIDs of verbs devices, LIDs, IPv4 addresses in GIDs.
Each pattern starts with that literal, which is what a search is quick at."""
_LONG = 32 * 1024
"""Longer texts (a kernel log, `nvidia-smi -q`) hold times and temperatures and are never alike."""
_KEPT = 128


def once(rule: Callable[[SectionOutput, *Ts], R]) -> Callable[[SectionOutput, *Ts], R]:
    """A function of a section's text that is worked out once for all nodes that answer alike.

    It must read nothing else of the section than both streams and the exit status, and must not tell a serial number: the one it sees is
    made of zeros. Its further arguments are compared as they are.
    """

    @functools.lru_cache(maxsize=_KEPT)
    def remembered(name: str, stdout: str, stderr: str, status: int | None, *more: *Ts) -> R:
        return rule(SectionOutput(name, stdout, stderr, status, 1), *more)

    def worked_out(output: SectionOutput, *more: *Ts) -> R:
        if len(output.stdout) > _LONG or len(output.stderr) > _LONG:
            return rule(output, *more)
        return remembered(output.name, _without_serials(output.stdout), output.stderr, output.exit_status, *more)

    return worked_out


@functools.lru_cache(maxsize=_KEPT)
def _without_serials(text: str) -> str:
    for sign, serial, instead in _SERIALS:
        if sign in text:
            text = serial.sub(instead, text)
    return text
