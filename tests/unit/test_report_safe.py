"""Text from elsewhere, made harmless for each place it is written to."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.reports import safe

XML_1_0 = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\x00b\x7fc", "a␀b␡c"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        ("abc\u202edcba", "abc⟨U+202E⟩dcba"),
        ("\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"),
        ("a\u200bb\ufeffc\u2060d", "a⟨U+200B⟩b⟨U+FEFF⟩c⟨U+2060⟩d"),
        ("a\u2028b\u2029c", "a⟨U+2028⟩b⟨U+2029⟩c"),
        ("\ud800", "⟨U+D800⟩"),
        ("\ufffe\uffff\U0010ffff", "⟨U+FFFE⟩⟨U+FFFF⟩⟨U+10FFFF⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("line\n\ttab", "line\n\ttab"),
        ("grün 网络 µs", "grün 网络 µs"),
    ],
)
def test_characters_that_hide_or_move_others_become_marks(text: str, shown: str) -> None:
    assert safe.visible(text) == shown


@given(st.text())
def test_visible_text_is_always_valid_in_xml_and_encodable(text: str) -> None:
    shown = safe.visible(text)
    assert XML_1_0.fullmatch(shown)
    assert "\r" not in shown
    shown.encode("utf-8")


@given(st.text())
def test_one_line_never_breaks(text: str) -> None:
    assert len(safe.one_line(text).splitlines()) <= 1


@given(st.text())
def test_json_in_a_script_cannot_end_the_script(text: str) -> None:
    assert not set("<>&\u2028\u2029") & set(safe.script_json(text))


@given(st.text(alphabet="`~\n a|"))
def test_a_fenced_block_is_closed_only_by_its_own_fence(text: str) -> None:
    first, *inside, last = safe.markdown_block(text).rstrip("\n").split("\n")
    fence = first.removesuffix("text")
    assert last == fence
    assert all(fence not in line for line in inside)


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "\r=1", "＝1", "|x", "%x"]
)
def test_a_cell_that_a_spreadsheet_would_run_is_made_text(text: str) -> None:
    assert safe.csv_cell(text).startswith("'")


@pytest.mark.parametrize("text", ["gpu-001", "all_reduce", "8", "", "a=b"])
def test_a_harmless_cell_stays_as_it_is(text: str) -> None:
    assert safe.csv_cell(text) == text


def test_an_annotation_cannot_start_another_workflow_command() -> None:
    text = "50%\n::error title=x::y, z: w"
    assert safe.annotation(text) == "50%25␊::error title=x::y, z: w"
    assert safe.annotation_property(text) == "50%25␊%3A%3Aerror title=x%3A%3Ay%2C z%3A w"


def test_a_css_string_keeps_nothing_that_could_end_it() -> None:
    assert safe.css_string('run"}@import url(//x);\n\\') == '"run??@import url(//x);??"'.replace(
        "@", "?"
    )
