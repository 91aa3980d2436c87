"""Outputs of node tools as people copy them are read as they were printed; a row that something else
was written into is never passed over."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from format_texts.arriving import FIXTURES, Output
from format_texts.benchmarks import BENCHMARKS
from format_texts.every import NODE_TOOLS

from busbw.parsers import tools
from busbw.parsers.logs.copied import as_printed_bytes


def _each(before: str, behind: str = "") -> Callable[[str], str]:
    return lambda text: "".join(f"{before}{line}{behind}\n" for line in text.splitlines())


def _numbered(form: str) -> Callable[[str], str]:
    return lambda text: "".join(
        f"{form.format(number)}{line}\n" for number, line in enumerate(text.splitlines(), 1)
    )


def _in_colour(text: str) -> str:
    return re.sub(r"(?<![\w.:])\d+\.\d+(?![\w.:])", "\x1b[1;33m\\g<0>\x1b[0m", text)


def _inside_numbers(text: str) -> str:
    return re.sub(r"(?<![\w.:])(\d)(\d*\.\d+)(?![\w.:])", "\\1\x1b[1m\\2\x1b[m", text)


FORMS: dict[str, Callable[[str], str]] = {
    "quoted": _each("> "),
    "quoted twice": _each(">> "),
    "an answer": lambda text: (
        "On Tuesday somebody wrote:\n" + _each("> ")(text) + "\nIs this good?\n"
    ),
    "added lines of a diff": _each("+"),
    "a chat's bar": _each("| "),
    "cat -n": _numbered("{:6}\t"),
    "grep -n": _numbered("{}:"),
    "an editor's numbers": _numbered("{:>4} "),
    "less -N": _numbered("{:>3} | "),
    "coloured lines": _each("\x1b[32m", "\x1b[0m"),
    "coloured numbers": _in_colour,
    "colours inside numbers": _inside_numbers,
    "HTML": lambda text: f"<pre>{html.escape(text)}</pre>\n",
    "a page": lambda text: (
        f"<html><body><pre><code>{html.escape(text)}</code></pre></body></html>\n"
    ),
    "no-break spaces": lambda text: text.replace("  ", "\u00a0 "),
    "a fence": lambda text: f"I ran:\n\n```\n{text}\n```\n\nThanks\n",
    "a fence in a list": lambda text: "1. I ran:\n\n   ```text\n" + _each("   ")(text) + "   ```\n",
    "indented": _each("    "),
}
_ONE_LINE = {"nccl-tests -J", "flight recorder, JSON", "HPCG"}
_TEXTS = {
    **{output.name: output.good for output in (*NODE_TOOLS, *BENCHMARKS)},
    "ibstat": (FIXTURES / "healthy/ibstat.txt").read_text(),
    "ibv_devinfo": (FIXTURES / "healthy/ibv-devinfo-roce.txt").read_text(),
    "ibv_devices": "    device          \t   node GUID\n    ------          \t----------------\n    mlx5_0          \tb83fd20300a1b2c3\n",
    "ib_write_bw": (FIXTURES / "bandwidth/ib_write_bw.txt").read_text(),
    "ib_write_lat": (FIXTURES / "bandwidth/ib_write_lat.txt").read_text(),
}


def _read(text: str) -> list[tuple[object, ...]]:
    readings = tools.read(text.encode())
    return [(each.tool, each.lines, each.errors, each.gaps) for each in readings]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name in _TEXTS if name not in _ONE_LINE])
def test_a_copied_text_is_read_as_it_was_printed(name: str, form: str) -> None:
    assert _read(_TEXTS[name])
    assert _read(FORMS[form](_TEXTS[name])) == _read(_TEXTS[name])


_TABLES: tuple[Output | str, ...] = (
    "OSU",
    "IMB",
    "perftest",
    "TransferBench",
    "HPL",
    "fi_pingpong",
    "iperf3",
    "ib_write_bw",
)
_BARS = ("[=====>    ] 50% ", "Downloading 12.5 MB/s eta 0:00:03 ")


@pytest.mark.parametrize("bar", _BARS)
@pytest.mark.parametrize("name", _TABLES)
def test_a_row_that_something_was_written_into_is_a_gap(name: str, bar: str) -> None:
    lines = _TEXTS[name].splitlines(keepends=True)
    rows = [
        number
        for number, line in enumerate(lines)
        if len(re.findall(r"\b\d+\.\d\d", line)) > (name != "OSU")
    ]
    assert rows
    for row in rows:
        for at in (0, len(lines[row].rstrip())):
            line = lines[row][:at] + bar + lines[row][at:]
            text = "".join((*lines[:row], line, *lines[row + 1 :]))
            gaps = [gap for each in tools.read(text.encode()) for gap in each.gaps]
            same = [each.lines for each in tools.read(text.encode())] == [
                each.lines for each in tools.read(_TEXTS[name].encode())
            ]
            assert gaps or same, line


def test_a_coloured_log_loses_its_colours_and_nothing_else() -> None:
    log = b"\x1b[32mok\x1b[0m\r\n  12: a 5\r\n  13: b 7\r\n  14: c 9\r\n"
    assert as_printed_bytes(log) == b"ok\r\n  12: a 5\r\n  13: b 7\r\n  14: c 9\r\n"


@pytest.mark.parametrize(
    "line", [">", "+ a", "| a", "```", "\t12 a", "  a", "&lt;", "a\u00a0b", "<pre>"]
)
def test_each_sign_of_copying_is_seen(line: str) -> None:
    """Only a copied text loses the mark of byte order inside it."""
    copied = f"{line}\nx\ufeff\n".encode()
    assert b"\xef\xbb\xbf" not in as_printed_bytes(copied)
    assert as_printed_bytes("x\ufeff\n".encode()) == "x\ufeff\n".encode()
