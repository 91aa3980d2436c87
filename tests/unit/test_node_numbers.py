"""Numbers that nodes print: one conversion for all, which no node can make fail."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import busbw
import busbw.parsers
from busbw.checks import NodeAnswer, SectionOutput
from busbw.checks.software import facts
from busbw.model import Node
from busbw.run.job import parse_poll
from busbw.text import decoded, whole_number
from busbw.transport.framing import unframe

ODD = ("²", "٣", "1²", "9" * 5000, "٣" * 5000, "", "-1", "1_0", " 1", "1\n")
FOLDERS = ("checks", "run", "transport", "triage", "assess", "survey", "parsers")


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_what_is_no_number_of_a_node_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_digits_without_end_never_reach_a_reader_in_whatever_script() -> None:
    for digit in ("9", "٣"):
        assert decoded(f"rate {digit * 5000} Gb/s".encode()) == "rate … Gb/s"
    assert decoded("²".encode()) == "²"


@pytest.mark.parametrize("text", ODD[:-1], ids=range(len(ODD) - 1))
def test_a_node_with_an_odd_user_number_is_a_node_without_one(text: str) -> None:
    section = SectionOutput("identity", f"host=n1\nhome=/root\nuid={text}\n", "", 0, 1)
    known = facts(NodeAnswer(Node("n1"), {"identity": section}, "", None))
    assert (known.host_name, known.user_id) == ("n1", None)


def test_a_process_group_without_end_is_none() -> None:
    long = b"9" * 5000
    assert not unframe(b"\nM " + long + b"\nout", b"", "M").started
    ended = unframe(b"\nM 41\nout", b"\nM 41\nerr\nM end " + long + b"\n", "M")
    assert (ended.group, ended.exit_status) == (41, None)


def test_a_job_that_is_older_than_numbers_go_is_no_answer() -> None:
    assert parse_poll(b"state=running " + b"9" * 5000 + b"\n") is None


def test_no_reader_converts_what_a_node_prints_by_another_rule() -> None:
    """`²` is a digit for `str.isdigit` and none for `int`."""
    root = Path(next(iter(busbw.__path__)))
    found = []
    for folder in FOLDERS:
        top = Path(next(iter(busbw.parsers.__path__))) if folder == "parsers" else root / folder
        files = list(top.rglob("*.py"))
        assert files, folder
        for file in files:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                name = node.attr if isinstance(node, ast.Attribute) else ""
                if name in ("isdigit", "isdecimal", "isnumeric"):
                    found.append(f"{file}:{node.lineno}")
    assert found == []
