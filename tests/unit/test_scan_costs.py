"""What the expressions of `read` and `why` cost on a log of many programs, counted and not timed: an
expression that is asked of most lines in vain makes every text slow."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.cli import read_texts
from busbw.parsers.findings import searching
from busbw.parsers.logs.scan import Pattern, Scanner, scanner_of
from busbw.parsers.logs.scan_literals import LiteralFinder, _found_whole
from busbw.parsers.logs.scan_sieve import branches_of

pytest.importorskip("hyperscan", reason="the fast finder is not installed here")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import gen_varied

MOST_IN_VAIN = 0.1
"""Of a text's lines, for one branch of an expression."""


class Counting(LiteralFinder):
    """Counts what each branch is asked of in vain."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.in_vain: Counter[int] = Counter()

    def learn(self, hits: Mapping[int, int], misses: Mapping[int, int]) -> None:
        self.in_vain.update(misses)


def in_vain(patterns: tuple[Pattern, ...]) -> dict[str, float]:
    """Expression → share of the lines that it was asked of and did not match."""
    scanner = Scanner(patterns, Counting)
    scan = scanner.scan([b"".join(gen_varied.varied(1_000_000, 4107))])
    finder = scanner._finder
    assert isinstance(finder, Counting)
    return {
        finder.branches[number].text: count / scan.lines
        for number, count in finder.in_vain.most_common(5)
    }


def test_no_expression_is_asked_of_a_tenth_of_a_varied_log_in_vain() -> None:
    for patterns in (scanner_of(read_texts._patterns()).patterns, searching.scanner().patterns):
        costly = {text: share for text, share in in_vain(patterns).items() if share > MOST_IN_VAIN}
        assert costly == {}


def test_an_expression_that_one_character_has_to_find_is_seen() -> None:
    """The library does not know `\\Z`: it cannot search it whole."""
    costly = Pattern("x", r"(?:\d\d:\d\d:\d{9}|yyyy)\Z")
    assert max(in_vain((costly,)).values()) > MOST_IN_VAIN


def test_expressions_that_begin_with_blanks_do_not_hide_each_other() -> None:
    """Vectorscan 5.4.12 misses the last line where one database holds these three as they are."""
    expressions = (
        r"^\s*NAME\s+(?:STATUS|READY)",
        r"^\s+Pending(?: Page Blacklist)? +: Yes$",
        r"^ *GID: *(?:00:){15}00\b",
    )
    scanner = Scanner(tuple(Pattern(each, each) for each in expressions))
    text = b"gpu-00:4005:5005 [5] NCCL INFO AllReduce: opCount f453 sendbuff 0x1e78324f3e81 [nranks=16]\n GID: "
    assert [hit.pattern for hit in scanner.scan([text + b"00:" * 15 + b"00"]).hits] == [
        expressions[2]
    ]


def test_where_hyperscan_alone_decides_it_decides_as_python_does() -> None:
    text = b"".join(gen_varied.varied(300_000, 4108)).replace(b"\r", b"").replace(b"\x1b", b"")
    lines = text.split(b"\n")
    for scanner in (scanner_of(read_texts._patterns()), searching.scanner()):
        finder = scanner._finder
        assert isinstance(finder, LiteralFinder)
        sure = [finder.branches[number] for number, is_sure in finder.whole.items() if is_sure]
        assert len(sure) > 5
        of_branch = finder.lines(text, frozenset()).of_branch
        for branch in sure:
            matching = [at for at, line in enumerate(lines) if branch.regex.search(line)]
            wanted = matching[:1] if branch.is_single else matching
            assert of_branch.get(branch.number, []) == wanted, branch.text


@pytest.mark.parametrize(
    "regex", [r"ab\s+12", r"ab[^x]12", r"ab\W12", r"ab$", r"ab(?! c)", r"\bab\D"]
)
def test_python_is_asked_of_what_may_match_across_lines_or_reads_otherwise(regex: str) -> None:
    (branch,) = branches_of([regex])
    assert [is_sure for _, is_sure in _found_whole([branch])] in ([False], [])
    hits = Scanner((Pattern("x", regex),)).scan([b"ab\n12\nab c\n"]).hits
    expected = [at for at, line in enumerate(("ab", "12", "ab c"), 1) if re.search(regex, line)]
    assert [line.line_no for hit in hits for line in hit.examples] == expected
