"""The telling lines of a kernel log keep their numbers, however the text's lines end."""

from __future__ import annotations

import pytest

from busbw.parsers.tools import kernel_log

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("text", "line_no"),
    [
        (f"quiet\n{XID}\nquiet\n", 2),
        (f"quiet\n{XID}", 2),
        (f"quiet\r{XID}\n", 2),
        (f"quiet\x0bquiet\u2028{XID}\n", 3),
        (f"█ 40%|\n\n{XID}\n", 3),
    ],
    ids=["line feeds", "no end", "carriage return", "other breaks", "other letters"],
)
def test_the_line_is_numbered_as_editors_do(text: str, line_no: int) -> None:
    (event,) = kernel_log.parse(text)
    assert (event.kind, event.number, event.line_no) == ("xid", 79, line_no)
    assert event.text == XID


def test_a_log_that_tells_nothing_has_no_events() -> None:
    assert kernel_log.parse("eth0: link is up\n" * 3) == ()
