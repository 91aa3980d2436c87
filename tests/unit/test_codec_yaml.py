"""YAML as people write it: scalars, positions, and what is said of every mistake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.codec import Opaque, Written, load_yaml, read_tree, read_yaml, unknown
from busbw.errors import BusbwError, PlaybookError, UsageError
from busbw.model import Collective
from busbw.units import parse_size


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    address: str | None = None
    port: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class File:
    nodes: tuple[str | Entry, ...]
    size: Annotated[int, Written(parse_size)] = 1
    collective: Collective = Collective.ALL_REDUCE
    when: Literal["always", "never"] = "never"
    fast: bool = False
    ratio: float = 1.0


def complaints(text: str) -> list[str]:
    with pytest.raises(BusbwError) as caught:
        load_yaml(text, "f.yaml", File)
    return caught.value.what.splitlines()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18:00", "18:00"),
        ("12:30:45", "12:30:45"),
        ("0123", "0123"),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("2020-01-01", "2020-01-01"),
        ("1_000", "1_000"),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("0x1F", 31),
        ("0o17", 15),
        ("-7", -7),
        ("0", 0),
        ("2.20", 2.2),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("'1'", "1"),
        ('"true"', "true"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_scalars_are_read_by_the_core_schema(text: str, value: object) -> None:
    read = read_tree(f"a: {text}", "f.yaml").value["a"]
    assert (read, type(read)) == (value, type(value))


def test_a_text_field_takes_a_plain_number_as_it_was_written() -> None:
    text = "nodes:\n  - 001\n  - 0x1F\n  - {name: 2.20, labels: {rack: 07, up: true}}\n"
    assert load_yaml(text, "f.yaml", File).nodes == (
        "001",
        "0x1F",
        Entry("2.20", labels={"rack": "07", "up": "true"}),
    )


def test_a_field_with_a_unit_takes_text_or_a_plain_number() -> None:
    assert [
        load_yaml(f"nodes: [a]\nsize: {text}", "f", File).size for text in ("512M", "8", "'8'")
    ] == [512 << 20, 8, 8]


def test_every_mistake_is_reported_at_once_with_line_column_and_the_likely_meaning() -> None:
    text = """\
nodes:
  - {name: a, adress: 10.0.0.1}
  - {prt: 22}
  - [a]
size: 512MX
collective: all_redce
when: sometimes
fast: no
ratio: high
speed: 3
"""
    assert complaints(text) == [
        "f.yaml:2:15: unknown key 'adress'; did you mean 'address'?",
        "f.yaml:3:5: missing key 'name'",
        "f.yaml:3:6: unknown key 'prt'; did you mean 'port'?",
        "f.yaml:4:5: expected text or a mapping, found a list",
        "f.yaml:5:7: expected a size such as 8, 64K or 8G, found '512MX'",
        "f.yaml:6:13: unknown value 'all_redce'; did you mean 'all_reduce'?",
        "f.yaml:7:7: unknown value 'sometimes'; known: always, never",
        "f.yaml:8:7: expected true or false, found 'no'",
        "f.yaml:9:8: expected a number, found 'high'",
        "f.yaml:10:1: unknown key 'speed'; known: collective, fast, nodes, ratio, size, when",
    ]


def test_the_error_is_of_the_class_the_reader_asked_for_and_says_what_to_do() -> None:
    with pytest.raises(PlaybookError) as caught:
        load_yaml("nodes: 3", "f.yaml", File, error=PlaybookError)
    assert caught.value.lines() == (
        "error: f.yaml:1:8: expected a list, found 3",
        "next: 1 error: correct the text and start again; nothing was contacted",
    )


MULTIPLYING = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "f.yaml:1:1: empty"),
        ("# nothing\n", "f.yaml:1:1: empty"),
        ("- 3", "f.yaml:1:1: expected a mapping, found a list"),
        ("a: b: c", "f.yaml:1:5: not YAML: mapping values are not allowed in this context"),
        (
            "nodes: [a]\n---\nnodes: [b]",
            (
                "f.yaml:2:1: not YAML: but found another document (expected a single document in"
                " the stream)"
            ),
        ),
        (
            "nodes: !!python/name:os.system x",
            "f.yaml:1:8: tag '!!python/name:os.system' is not read here",
        ),
        ("nodes: !vault x", "f.yaml:1:8: tag '!vault' is not read here"),
        ("? [a]\n: b", "f.yaml:1:3: a key must be a word, not a list or a mapping"),
        (
            "nodes: [a]\n<<: {size: 3}",
            "f.yaml:2:1: unknown key '<<'; known: collective, fast, nodes, ratio, size, when",
        ),
        (
            "nodes: [a]\nratio: 8\n  # again\nratio: 4\n",
            "f.yaml:4:1: duplicate key 'ratio' (first at line 2)",
        ),
        (
            "nodes: &a [*a]",
            "f.yaml:1:8: nested deeper than 100 levels, or an alias that contains itself",
        ),
        ("nodes: [a\nsize: 3\n", "f.yaml:2:5: not YAML: ..."),
        ("nodes: [a\x00]", "f.yaml: not YAML: ..."),
        (MULTIPLYING, "f.yaml:1:12: aliases expand to more than 10000 values"),
    ],
)
def test_what_is_not_a_plain_yaml_mapping_is_refused_where_it_stands(
    text: str, complaint: str
) -> None:
    (problem,) = complaints(text)
    stem, dots, _ = complaint.partition("...")
    # What libyaml says of broken text differs between its versions.
    assert (problem[: len(stem)] if dots else problem) == stem


def test_a_file_of_more_than_five_megabytes_is_refused_before_it_is_read() -> None:
    (complaint,) = complaints("#" * 5_000_001)
    assert complaint == "f.yaml: larger than 5 MB: not a file that a person wrote"


def test_a_plain_alias_is_read() -> None:
    tree = read_tree("a: &x {b: 1}\nc: *x\n", "f.yaml")
    assert tree.value == {"a": {"b": 1}, "c": {"b": 1}}


def test_many_mistakes_are_cut_and_counted() -> None:
    complaint_lines = complaints("nodes: [a]\n" + "".join(f"bad{n}: 1\n" for n in range(50)))
    assert len(complaint_lines) == 21
    assert complaint_lines[-1] == "… and 30 more"


def test_an_opaque_tag_is_kept_unread() -> None:
    assert read_tree("a: !vault |\n  secret\nb: 1", "f", opaque_tags=("!vault",)).value == {
        "a": Opaque("!vault"),
        "b": 1,
    }


def test_a_reader_can_point_at_any_part_of_the_text() -> None:
    document = read_yaml("nodes:\n  - a\n  - name: b\n    port: 1\n", "f.yaml", File)
    assert str(document.problem(("nodes", 1, "port"), "why")) == "f.yaml:4:11: why"
    assert str(document.problem(("nodes", 1, "port"), "why", key=True)) == "f.yaml:4:5: why"
    assert (
        str(document.problem(("nodes", 1, "address"), "not given: its holder"))
        == "f.yaml:3:5: not given: its holder"
    )


KEYS = st.text("abcdefghij", min_size=1, max_size=5)


@given(
    st.lists(
        st.tuples(KEYS, st.integers(0, 4), st.integers(0, 3)),
        min_size=1,
        max_size=8,
        unique_by=lambda item: item[0],
    )
)
def test_the_position_of_every_key_and_value_is_that_of_the_text(
    items: list[tuple[str, int, int]],
) -> None:
    text, places, line = "", {}, 1
    for key, blank_lines, blanks in items:
        text += "\n" * blank_lines + f"{key}: " + " " * blanks + "v\n"
        line += blank_lines
        places[key] = ((line, 1), (line, len(key) + 3 + blanks))
        line += 1
    tree = read_tree(text, "f.yaml")
    assert {key: (tree.keys[(key,)], tree.positions[(key,)]) for key, _, _ in items} == places


@given(st.text())
def test_whatever_text_comes_in_it_is_a_value_or_a_usage_error(text: str) -> None:
    what = "f.yaml"
    try:
        read_tree(text, "f.yaml", allow_empty=True)
    except UsageError as error:
        what = error.what
    assert what.startswith("f.yaml")


def test_an_unknown_name_without_a_near_one_lists_the_known() -> None:
    assert (
        unknown("profile", "token-ring", ("tcp", "efa"))
        == "unknown profile 'token-ring'; known: efa, tcp"
    )
    assert unknown("node", "x", ()) == "unknown node 'x'; known: none"
