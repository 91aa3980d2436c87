"""What launchers, log collectors and people put in front of a line: which process wrote it, when, and the line itself.

Written against the output tags of Open MPI 4 and 5, srun --label, hydra -l, torchrun, Ray, pdsh and clush, the log prefixes of kubectl,
docker compose, syslog and Python logging, and the quoting of GitHub, Markdown, Ansible and e-mail.

>>> split("[1,3]<stdout>:#   Rank  0")
Prefixed(tag='1,3', text='#   Rank  0')
>>> split(" 0:      8388608       2097152     float")
Prefixed(tag='0', text='      8388608       2097152     float')
>>> split("2026-07-10T09:00:00.25Z (worker, rank=0, pid=380) [1,0]<stdout>:# Avg bus bandwidth    : 12.5")
Prefixed(tag='worker, rank=0, pid=380/1,0', text='# Avg bus bandwidth    : 12.5')
>>> split("     8388608       2097152     float")
Prefixed(tag='', text='     8388608       2097152     float')
"""

from __future__ import annotations

import html
import re
from typing import NamedTuple


class Prefixed(NamedTuple):
    """A line without what stood in front of it."""

    tag: str
    """Which process wrote it (rank, host, pod, task), "" = nobody says. Time stamps are not part of it."""
    text: str


_CTIME = r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\]?"
_CONTENT = r"(?=\s*(?:#|$|\d+\s+\d+\s+[a-z]|[\d.e+-]+\s+[\d.e+]+\s+[\d.e+]+))"
"""What a table line goes on with: prefixes that are ordinary words are taken only in front of this."""

_PREFIXES = re.compile(
    "|".join(
        (
            rf"\s*(?:{_CTIME})?\[(?P<ompi>(?:[^\[\],\s]+,)?\d+)\](?:\[[^\[\]]+\])?<(?:stdout|stderr|stddiag)>:",  # Open MPI 4, 5: tags
            rf"\s*{_CTIME}<(?:stdout|stderr|stddiag)>:",  # Open MPI: time stamps alone
            r'\s*<std(?:out|err) rank="(?P<xml>\d+)">',  # Open MPI 5: --output xml
            r"\s*\[(?P<torch>(?:rank|default)\d+)\]:",  # torchrun
            r"\s*\((?P<ray>[^()]{0,120}?\b(?:pid|rank|ip)=[^()]{1,120})\)",  # Ray, SkyPilot
            r"\s*\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?: std(?:out|err) [FP])?(?=\s|$)",  # ISO 8601
            r"\s*\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?(?=\s+\S)",  # time of day
            r"[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d (?P<syslog>[\w.-]+) [^\s:]+:",  # syslog, journalctl
            r"(?:- )?(?:[\w.]+ - )?(?:INFO|DEBUG|WARNING)(?: -(?= )|:[\w.]+:|:?(?= ))",  # Python logging
            r"\s*(?P<srun>\d{1,6}):(?=[ #]|$)",  # srun --label
            r"\s*\[(?P<hydra>\d{1,5})\](?= |$)",  # hydra -l
            rf"\s*\[(?P<bracket>[A-Za-z][\w.-]*(?:[/:][\w.-]+)*)\]:?{_CONTENT}",  # [node01], [pod/name/container]
            rf"\s*(?P<pdsh>[A-Za-z][\w.-]*):{_CONTENT}",  # pdsh, clush
            rf"\s*(?P<compose>[A-Za-z][\w.-]*)\s*\|{_CONTENT}",  # docker compose
            rf"(?P<grep>[\w./-]+\.(?:log|out|txt|err|o\d+)(?:\.\d+)?)[:-](?:\d+[:-])?{_CONTENT}",  # grep over several files
            rf"\s*\d{{1,7}}\t{_CONTENT}",  # cat -n
            r"\s*[>+](?=\s*(?:[#\[(<\d]|$))",  # quoting
            rf"""\s*(?:[-*•] |["'`]|:mark:`|\{{"log":"){_CONTENT}""",  # lists, strings, docker's JSON log
        )
    )
)
_MAY_BEGIN = re.compile(r"""\s*(?:[\[({<>+"'`•:A-Z]|\d{1,6}:|\d{4}-\d\d|\d+\t|[-*] |\S*[:|-])""")
"""Cheap test: a line that does not begin like this has no prefix."""
_DEEPEST = 5
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_INVISIBLE = {0: None, 0x200B: None, 0xFEFF: None, 0xA0: " ", 0x202F: " ", 0x3000: " ", 0x2212: "-"}


def split(line: str) -> Prefixed:
    """The line without its prefixes (up to five stacked ones), and who wrote it.

    A space that a launcher puts behind its tag stays: whether it does is not told by one line, and columns only need all lines alike."""
    position = 0
    tags: list[str] = []
    for _ in range(_DEEPEST):
        if not _MAY_BEGIN.match(line, position):
            break
        match = _PREFIXES.match(line, position)
        if match is None or match.end() == position:
            break
        if match.lastgroup:
            tags.append(match[match.lastgroup].strip())
        position = match.end()
    return Prefixed("/".join(tags), line[position:])


def undecorate(line: str) -> str:
    """The line without colours, NULs, invisible characters, HTML entities and line ends; no-break spaces become spaces.

    >>> undecorate("\\x1b[32m[1,0]&lt;stdout&gt;:#\\x1b[0m\\r\\n")
    '[1,0]<stdout>:#'
    """
    line = line.rstrip("\r\n")
    if not line.isascii():
        line = line.translate(_INVISIBLE)
    elif "\0" in line:
        line = line.replace("\0", "")
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "&" in line and ";" in line:
        line = html.unescape(line).replace("\xa0", " ")
    return line
