"""Records to JSON and back, and what is said of JSON that is not such a record."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.codec import dump_json, json_schema, parse_json
from busbw.errors import ReadError, UsageError
from busbw.model import (
    Answer,
    BenchmarkCase,
    Cluster,
    Collective,
    CommandResult,
    Node,
    Sizes,
    Unreachable,
)

CASE = BenchmarkCase(
    "all-reduce",
    Collective.ALL_REDUCE,
    Sizes(8, 1 << 33),
    env=(("NCCL_ALGO", "Ring"),),
    timeout_s=90.5,
)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Sample:
    number: float
    text: str = ""
    raw: bytes = b""
    table: dict[str, int] | None = None
    colour: Colour = Colour.RED


def test_importing_the_codec_loads_neither_pydantic_nor_yaml() -> None:
    code = (
        "import sys, busbw.codec; print(sorted({'yaml', 'pydantic', 'pydantic_core'} &"
        " set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_writing_json_needs_no_pydantic() -> None:
    code = (
        "import sys; from busbw.codec import dump_json; from busbw.model import Node;"
        " dump_json(Node('a')); print('pydantic' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


def test_a_record_survives_the_way_through_json() -> None:
    cluster = Cluster(
        nodes=(Node("a", gpus=8, labels=(("rack", "07"),)), Node("b")),
        head="a",
        source="-w a,b",
        notes=("é µ 𝄞",),
    )
    for record, kind in ((CASE, BenchmarkCase), (cluster, Cluster)):
        assert parse_json(dump_json(record).encode(), kind) == record


def test_bytes_and_unions_survive_the_way_through_json() -> None:
    answers = (
        CommandResult("a", ("true",), 0, b"\xff\x00\n", b"", 0.25),
        Unreachable("b", "timed out"),
    )
    assert parse_json(dump_json(answers).encode(), tuple[Answer, ...]) == answers


def test_json_text_is_canonical() -> None:
    text = dump_json(Sample(0.1, 'µ "x"\n', b"\xff", {"b": 2, "a": 1}))
    assert (
        text
        == '{\n  "number": 0.1,\n  "text": "µ \\"x\\"\\n",\n  "raw": "/w==",\n  "table": {\n   '
        ' "a": 1,\n    "b": 2\n  },\n  "colour": "red"\n}\n'
    )


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TABLES = st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1))


@given(st.builds(Sample, NUMBERS, st.text(), st.binary(), TABLES))
def test_whatever_a_record_holds_comes_back_as_it_was(record: Sample) -> None:
    text = dump_json(record)
    assert parse_json(text.encode(), Sample) == record
    assert dump_json(parse_json(text.encode(), Sample)) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_and_its_place_is_named(value: float) -> None:
    with pytest.raises(
        ValueError, match=r"\[1\]\.number is (nan|inf|-inf); only finite numbers can be written"
    ):
        dump_json((Sample(1.0), Sample(value)))


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_a_number_that_is_not_finite_is_not_read_either(text: str) -> None:
    with pytest.raises(UsageError):
        parse_json(f'{{"number": {text}}}'.encode(), Sample)


def test_a_lone_surrogate_does_not_break_the_file() -> None:
    text = dump_json(Sample(1.0, "a\udc80b"))
    assert "a\\udc80b" in text
    assert json.loads(text.encode("utf-8"))["text"] == "a\udc80b"


@pytest.mark.parametrize("text", ["\x7f", "\x9b31m", "\u202e", "\u2066", "\u2028"])
def test_what_a_terminal_obeys_or_reorders_is_escaped_and_comes_back(text: str) -> None:
    written = dump_json((text,))
    assert text[0] not in written
    assert json.loads(written) == [text]


def test_what_no_record_may_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="value is of type object"):
        dump_json(object())


def test_json_that_was_cut_short_says_where_it_ends() -> None:
    data = dump_json(CASE).encode()[:60]
    with pytest.raises(ReadError) as caught:
        parse_json(data, BenchmarkCase, "run.json", error=ReadError)
    assert caught.value.lines() == (
        "error: run.json:4:3: not JSON, or cut short: Unterminated string starting at",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"{} {}",
        b'{"number": 1}, {"number": 2}',
        b'{"number": 1}]',
        b"[" * 100_000,
    ],
)
def test_what_is_not_one_json_document_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"not JSON"):
        parse_json(data, Sample, "x.json")


def test_every_wrong_part_of_a_json_record_is_named_with_its_place() -> None:
    document = json.loads(dump_json(CASE))
    document["sizes"]["facotr"] = document["sizes"].pop("factor")
    document["iterations"] = 2.5
    document["collective"] = "all_redce"
    document["env"] = [["A"]]
    del document["id"]
    with pytest.raises(ReadError) as caught:
        parse_json(json.dumps(document).encode(), BenchmarkCase, "run.json", error=ReadError)
    assert caught.value.what.splitlines() == [
        "run.json: missing key 'id'",
        "run.json: collective: unknown value 'all_redce'; did you mean 'all_reduce'?",
        "run.json: sizes: unknown key 'facotr'; did you mean 'factor'?",
        "run.json: iterations: expected a whole number, found 2.5",
        "run.json: env[0]: the list is too short",
    ]


def test_a_whole_number_serves_as_a_float_and_not_the_other_way_round() -> None:
    assert parse_json(b'{"number": 3}', Sample).number == 3.0
    with pytest.raises(UsageError, match="expected a number, found '3'"):
        parse_json(b'{"number": "3"}', Sample)


def test_the_schema_of_a_record_is_published_and_forbids_unknown_keys() -> None:
    schema = json.loads(json_schema(BenchmarkCase))
    case = schema["$defs"]["BenchmarkCase"]
    assert schema["$ref"] == "#/$defs/BenchmarkCase"
    assert case["additionalProperties"] is False
    assert case["required"] == ["id", "collective", "sizes"]
    assert json_schema(BenchmarkCase) == json_schema(BenchmarkCase)
