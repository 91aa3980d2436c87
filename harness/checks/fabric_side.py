"""The two scripts for the fabric's side: what every node says of its own adapters and neighbours,
and what a host with the fabric's tools sees.

POSIX sh, reads only, framed as the script of all checks is; the host's outputs are kept whole,
since a fabric of a thousand nodes prints megabytes. The tools talk to the subnet through
/dev/infiniband/umad*: without root, or the group that owns it, they say so, and that is the answer.
"""

from __future__ import annotations

import shlex

from busbw.checks import CheckFamily, Section, script
from busbw.model import Command

LOCAL = CheckFamily(
    name="fabric-local",
    checks=(),
    sections=(
        Section("host", "uname -n", small=True),
        # A port's GUID is the lower half of its first GID.
        Section(
            "guids",
            small=True,
        ),
        Section("lldp", "lldpctl -f keyvalue", timeout_s=10),
    ),
    judge=lambda answer: (),
)
"""Asked of every node. Not a `CHECK`: it judges nothing, it feeds the topology."""

TOOLS = (
    ("iblinkinfo", ("iblinkinfo",)),
    ("ibnetdiscover", ("ibnetdiscover",)),
    ("ibqueryerrors", ("ibqueryerrors", "--report-port")),
)
TOOL_S = 120
"""Limit of each tool; a thousand nodes take some seconds."""
_HOST = """\
LC_ALL=C; export LC_ALL
if command -v timeout >/dev/null 2>&1; then T="timeout -k 2 $S"; else T=; fi
mark() { printf '\\n@@%s %s\\n' "$B" "$*"; printf '\\n@@%s %s\\n' "$B" "$*" >&2; }
tool() { n=$1; shift; mark begin "$n"
if command -v "$1" >/dev/null 2>&1; then $T "$@" </dev/null; mark end "$n" $?; else echo "sh: $1: not found" >&2; mark end "$n" 127; fi; }
"""


def local(boundary: str, store: str) -> Command:
    """What every node is asked, as one command."""
    command = script.build([LOCAL], boundary, script.limit_s(LOCAL.sections))
    return Command(
        command.argv, command.stdin, command.timeout_s, label="fabric-local", store=store
    )


def host(boundary: str, store: str, *, sudo: bool) -> Command:
    """What the host with the fabric's tools is asked; `sudo`: through `sudo -n`."""
    calls = "".join(f"tool {shlex.join((name, *argv))}\n" for name, argv in TOOLS)
    text = f"B={shlex.quote(boundary)}; S={TOOL_S}\n{_HOST}{calls}mark done\n"
    limit_s = len(TOOLS) * (TOOL_S + 4) + 10.0
    return Command(("sh", "-s"), text.encode(), limit_s, sudo=sudo, label="fabric", store=store)
