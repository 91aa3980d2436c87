"""Log lines inside a collector's JSON are read like the lines themselves, and documents that are
JSON stay what they are."""

from __future__ import annotations

import codecs
import json
import random
from pathlib import Path

import pytest

from busbw import intake
from busbw.cli import read_texts
from busbw.parsers.logs import json_values, scan_literals
from busbw.parsers.logs.json_values import _KEYS, _REASONS, unwrapped

LOG = (
    "gpu1:41:42 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\ngpu1:41:42 [0] NCCL INFO"
    " Using network IB\ngpu1:41:42 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : Got completion"
    " from peer 10.0.0.2<47001> with error 12, opcode 0, len 0\n"
)
STAMP = "2026-07-10T09:00:00.123456789Z"


def documents(tmp_path: Path, data: bytes) -> object:
    (tmp_path / "x.log").write_bytes(data)
    return read_texts.read_one(intake.Source("x.log", tmp_path / "x.log")).documents


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": STAMP}),
        lambda line: json.dumps({"timestamp": STAMP, "level": "info", "message": line}),
        lambda line: json.dumps({"date": 1783674000.1, "log": line}),
        lambda line: json.dumps({"MESSAGE": line, "_HOSTNAME": "gpu1", "PRIORITY": "6"}),
    ],
    ids=["docker", "logger", "fluent-bit", "journal"],
)
def test_a_log_in_json_lines_is_read_like_the_log(tmp_path: Path, wrap: object) -> None:
    assert callable(wrap)
    data = "".join(f"{wrap(line)}\n" for line in LOG.splitlines()).encode()
    assert documents(tmp_path, data) == documents(tmp_path, LOG.encode())
    assert documents(tmp_path, data[:-1]) == documents(tmp_path, LOG.encode())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_of_a_long_line_are_joined_and_other_lines_stay(size: int) -> None:
    data = (
        b'\n{"log":"one ","stream":"stdout"}\r\n{"log":"line\\n","stream":"stdout"}\nplain\n{"log":'
        b' cut\n{"other":1}\n{"msg":"last"}'
    )
    assert (
        b"".join(unwrapped(data[at : at + size] for at in range(0, len(data), size)))
        == b'\none line\nplain\n{"log": cut\n{"other":1}\nlast\n'
    )


def test_only_lines_that_are_objects_are_replaced_whatever_ends_them() -> None:
    data = (
        b'{"msg":"first"}\r\nplain {"msg":"inside"}\n\t{"msg":"tab"}\r{"msg":"bare"}\rstays {\n'
        b'{"msg":"a"} {"msg":"b"}\n{"msg":"cut\n'
    )
    assert b"".join(unwrapped([data])) == (
        b'first\nplain {"msg":"inside"}\ntab\nbare\nstays {\n{"msg":"a"} {"msg":"b"}\n{"msg":"cut\n'
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{",
        b'{"version": 3}\n',
        b'[{"log":"x"}]\n',
        b'{"log":5}\n{"log":"x"}\n',
        b"plain\n" * 9,
        b'{\n"log":"x"}\n',
    ],
)
def test_what_is_no_wrapped_log_is_given_as_it_is(data: bytes) -> None:
    assert b"".join(unwrapped(data[at : at + 3] for at in range(0, len(data), 3))) == data


def test_of_a_traceback_in_another_field_the_line_has_what_was_raised() -> None:
    stack = "Traceback (most recent call last):\n  File \"/a.py\", line 4\nKeyError: 'ids'\n"
    record = json.dumps({"msg": "worker crashed", "exc_info": stack})
    assert b"".join(unwrapped([record.encode() + b"\n"])) == b"worker crashed: KeyError: 'ids'\n"


def test_what_a_program_says_of_an_error_in_other_fields_is_part_of_its_line() -> None:
    data = (
        b'{"level":"error","msg":"start failed","error":"no such device\\nat a.go:7"}\n'
        b'{"msg":"event","event":{"health":{"message":"GPU lost","node":"n3"}}}\n'
        b'{"msg":"gone: no route","err":"no route"}\n'
    )
    assert b"".join(unwrapped([data])) == (
        b"start failed: no such device at a.go:7\nevent: GPU lost\ngone: no route\n"
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"])
def test_utf_16_is_known_with_and_without_its_mark(tmp_path: Path, encoding: str) -> None:
    assert documents(tmp_path, LOG.encode(encoding)) == documents(tmp_path, LOG.encode())
    assert documents(tmp_path, codecs.BOM_UTF16_BE + LOG.encode("utf-16-be")) == documents(
        tmp_path, LOG.encode()
    )


def test_a_shell_prompt_behind_a_warning_is_no_part_of_it(tmp_path: Path) -> None:
    prompt = "\x1b[01;32muser@head\x1b[00m:~$ exit\n\nScript done on 2026-07-10 09:00:01+00:00\n"
    (with_prompt,) = documents(tmp_path, (LOG + prompt).encode())  # type: ignore[misc]  # a tuple of one
    (alone,) = documents(tmp_path, LOG.encode())  # type: ignore[misc]
    assert with_prompt.records[0].warnings == alone.records[0].warnings


def a_record(draw: random.Random) -> str:
    """A line as programs write records, or nearly one."""
    keys = [*_KEYS, *_REASONS, "level", "step", "ts", "stream", "_source", "mymsg", 'q"msg', "é"]
    values: list[object] = [
        "saved",
        "",
        "a \\ b",
        'say "no"',
        "né",
        "€",
        "line\n",
        "two\nlines",
        "tab\t",
        "\x7f",
        "{",
        "}",
        "a, b: c",
    ]
    values += [
        0,
        -1,
        1.5,
        1e-07,
        1e300,
        12345678901234567890123,
        True,
        None,
        {},
        [],
        {"msg": "inner"},
        ["msg"],
        {"error": "deep"},
    ]
    plain: list[tuple[str, object]] = [
        ("level", "info"),
        ("msg", "saved"),
        ("step", 12),
        ("loss", -1.5e-07),
    ]
    count = draw.randrange(3)
    members = [*plain[count:], *((draw.choice(keys), draw.choice(values)) for _ in range(count))]
    draw.shuffle(members)
    separators = draw.choice([(",", ":"), (", ", ": "), (" , ", " : ")])
    cells = [
        json.dumps(key, ensure_ascii=draw.random() < 0.5)
        + separators[1]
        + json.dumps(value, ensure_ascii=draw.random() < 0.5, separators=separators)
        for key, value in members
    ]
    line = "{" + separators[0].join(cells) + "}"
    if draw.random() < 0.2:
        at = draw.randrange(len(line) + 1)
        line = (
            line[:at]
            + draw.choice(["", " ", '"', "\\", ",", "{", "\r", "\t", "\0", "01", '"msg": "x"'])
            + line[at:]
        )
    return draw.choice(["", "", "", "", " ", "\ufeff", "x ", "50%\r"]) + line


def test_records_taken_apart_without_decoding_say_what_decoded_ones_say() -> None:
    draw = random.Random(830_000)
    taken = 0
    for _ in range(1_500):
        lines = "".join(
            a_record(draw) + draw.choice(["\n", "\n", "\n", "\r\n", "\r"]) for _ in range(6)
        )
        data = lines.encode("utf-8", "surrogatepass")
        assert b"".join(json_values._unwrapped(data, None)) == b"".join(
            json_values._decoded(data, None)
        )
        taken += len(list(json_values._plain_records().of(data)))
    assert taken > 200 or not scan_literals._IS_HERE
