"""Flight recorder dumps: recorded from a real gloo job (tests/fixtures/flight_recorder/README.md),
and composed in NCCL's form of them."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import pickletools
from pathlib import Path

import pytest

from busbw.errors import ReadError, UnknownLayout
from busbw.model import FlightDump, FlightEntry, FlightGroup
from busbw.parsers.logs.flight_recorder import FORMAT, of_rank, rank_of, read
from busbw.parsers.logs.pickle_values import loads
from busbw.parsers.stall import recorders

FIXTURES = Path(__file__).parents[1] / "fixtures" / "flight_recorder"
COMPOSED = {
    "version": "2.10",
    "comm_lib_version": "2.27.5",
    "pg_config": {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        "1": {"name": "1", "desc": "dp", "ranks": "[0, 2]"},
    },
    "pg_status": {
        "0": {
            "last_enqueued_collective": "57",
            "last_started_collective": "57",
            "last_completed_collective": "56",
        },
        "1": {
            "last_enqueued_collective": "-1",
            "last_started_collective": "-1",
            "last_completed_collective": "-1",
        },
    },
    "entries": [
        {
            "record_id": 56,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": 57,
            "p2p_seq_id": 0,
            "op_id": 57,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1783674000000000000,
            "duration_ms": 5.5,
            "input_sizes": [[1024]],
            "input_dtypes": ["Float"],
            "output_sizes": [[1024]],
            "output_dtypes": ["Float"],
            "state": "started",
            "time_discovered_started_ns": 1783674000100000000,
            "time_discovered_completed_ns": 0,
            "retired": False,
            "timeout_ms": 600000,
            "is_p2p": False,
            "frames": [{"name": "step", "filename": "train.py", "line": 12}],
        }
    ],
}
ENTRY = FlightEntry(
    record_id=56,
    group="0",
    name="nccl:all_reduce",
    collective_seq=57,
    p2p_seq=0,
    op_id=57,
    state="started",
    input_sizes=((1024,),),
    input_types=("Float",),
    output_sizes=((1024,),),
    output_types=("Float",),
    created_ns=1783674000000000000,
    started_ns=1783674000100000000,
    completed_ns=None,
    duration_ms=5.5,
    timeout_ms=600000,
    retired=False,
    p2p=False,
    frames=("train.py:12 step",),
)
DUMP = FlightDump(
    None,
    "2.10",
    "2.27.5",
    (
        FlightGroup("0", "0", "default_pg", (0, 1, 2, 3), 57, 57, 56),
        FlightGroup("1", "1", "dp", (0, 2), None, None, None),
    ),
    (ENTRY,),
)


def dump_of(data: bytes) -> FlightDump:
    (dump,) = read([data]).records
    assert isinstance(dump, FlightDump)
    return dump


def test_json_in_ncclss_form_is_read_whole() -> None:
    assert dump_of(json.dumps(COMPOSED).encode()) == DUMP


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_every_protocol_gives_the_same_record(protocol: int) -> None:
    assert dump_of(pickle.dumps(COMPOSED, protocol)) == DUMP


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_reader_of_pickles_agrees_with_pickle_on_plain_data(protocol: int) -> None:
    shared = ["x", 1]
    value = {
        "ints": [0, -1, 255, 256, 70000, -(2**40), 2**200],
        "floats": [0.5, -1e300],
        "words": ["", "é€", "a" * 300],
        "none": [None, True, False],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "nested": [[[[]]], {}],
        "shared": [shared, shared],
        3: "number key",
    }
    assert loads(pickle.dumps(value, protocol)) == value


class Program:
    """Pickles to an instruction to run a command."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return (os.mkdir, (str(TRAP),))


TRAP = Path("/nonexistent-busbw-test/trap")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        Program(),
        {"entries": [Program()], "version": "2.10", "pg_status": {}},
        Path("/tmp"),
        {1, 2},
        1j,
        bytearray(b"x"),
    ],
)
def test_a_pickle_that_builds_anything_else_is_refused_by_the_name_of_its_instruction(
    protocol: int, value: object
) -> None:
    with pytest.raises(ReadError) as refused:
        loads(pickle.dumps(value, protocol))
    (line,) = [line for line in refused.value.lines() if line.startswith("seen: ")]
    allowed = {
        "instruction GLOBAL",
        "instruction STACK_GLOBAL",
        "instruction EMPTY_SET",
        "instruction FROZENSET",
        "instruction BYTEARRAY8",
    }
    assert line.removeprefix("seen: ") in allowed
    with pytest.raises(UnknownLayout):
        read([pickle.dumps(value, protocol)])


def test_every_instruction_that_could_call_or_import_is_refused() -> None:
    dangerous = {
        "GLOBAL",
        "STACK_GLOBAL",
        "REDUCE",
        "BUILD",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "EXT1",
        "EXT2",
        "EXT4",
        "PERSID",
        "BINPERSID",
    }
    for opcode in pickletools.opcodes:
        if opcode.name in dangerous:
            argument = {"GLOBAL": b"os\nsystem\n", "INST": b"os\nsystem\n", "PERSID": b"x\n"}.get(
                opcode.name, b"\x01\x00\x00\x00"
            )
            with pytest.raises(ReadError) as refused:
                loads(b"\x80\x02]" + opcode.code.encode("latin-1") + argument + b".")
            assert refused.value.seen == f"instruction {opcode.name}"


@pytest.mark.parametrize("name", ["straggler-rank0", "straggler-rank1"])
def test_the_recorded_json_and_pickle_of_one_moment_say_the_same(name: str) -> None:
    from_json = dump_of((FIXTURES / f"{name}.json").read_bytes())
    from_pickle = dump_of((FIXTURES / f"{name}.pickle").read_bytes())
    assert len(from_json.entries) == (6 if name.endswith("0") else 5)
    assert from_json.groups == from_pickle.groups
    for one, other in zip(from_json.entries, from_pickle.entries, strict=True):
        assert {field: getattr(one, field) for field in one.__slots__ if field != "frames"} == {
            field: getattr(other, field) for field in other.__slots__ if field != "frames"
        }
    assert from_pickle.entries[0].frames[-1] == "/tmp/job/train.py:11 <module>"


def test_the_recorded_straggler_is_one_sequence_behind_and_never_called_the_last_operation() -> (
    None
):
    dumps = [
        of_rank(dump_of((FIXTURES / f"straggler-rank{rank}.json").read_bytes()), rank)
        for rank in range(4)
    ]
    assert [dump.rank for dump in dumps] == [0, 1, 2, 3]
    assert [dump.groups[0].last_enqueued for dump in dumps] == [6, 5, 6, 6]
    assert {dump.groups[0].ranks for dump in dumps} == {(0, 1, 2, 3)}
    assert [(dump.entries[-1].name, dump.entries[-1].collective_seq) for dump in dumps] == [
        ("gloo:all_reduce", 6),
        ("gloo:all_gather", 5),
        ("gloo:all_reduce", 6),
        ("gloo:all_reduce", 6),
    ]


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        ("scheduled", True),
        ("started", True),
        ("completed", False),
        ("cancelled", False),
        ("", False),
    ],
)
def test_only_what_was_launched_and_is_not_over_is_waited_for(state: str, waits: bool) -> None:
    entry = dataclasses.replace(ENTRY, state=state, p2p=False)
    dump = dataclasses.replace(DUMP, groups=DUMP.groups[:1], entries=(entry,))
    (found,) = recorders.progress("dump", dump)
    assert bool(found.pending) is waits


def test_a_recorded_job_of_several_groups_has_each_with_its_name() -> None:
    document = read([(FIXTURES / "halves-rank2.json").read_bytes()])
    (dump,) = document.records
    assert isinstance(dump, FlightDump)
    groups = [(each.id, each.description, each.last_enqueued) for each in dump.groups]
    assert groups == [("0", "default_pg", 6), ("1", "half_b", 1)]
    assert [entry.input_types for entry in dump.entries if entry.group == "2"] == [("Half",)]
    # gloo leaves every state at `scheduled`: nothing is said to be unfinished.
    assert (document.complete, document.problems) == (True, ())


def test_a_dump_of_groups_without_entries_is_read() -> None:
    dump = dump_of((FIXTURES / "halves-groups-only-rank0.pickle").read_bytes())
    assert [(each.id, each.last_completed) for each in dump.groups] == [("0", 6), ("1", 1)]
    assert dump.entries == ()


def test_json_that_is_cut_off_gives_its_whole_entries_and_says_so() -> None:
    text = (FIXTURES / "straggler-rank0.json").read_bytes()
    document = read([text[: text.index(b'"record_id":4')]])
    (dump,) = document.records
    assert isinstance(dump, FlightDump)
    assert [entry.record_id for entry in dump.entries] == [0, 1, 2, 3]
    assert (document.complete, document.problems) == (
        False,
        ("the document is truncated after 4 entries; its groups are missing",),
    )


def test_a_pickle_that_is_cut_off_anywhere_is_refused_never_half_read() -> None:
    data = (FIXTURES / "straggler-rank1.pickle").read_bytes()
    for cut in range(0, len(data), 7):
        with pytest.raises(UnknownLayout):
            read([data[:cut]])


def test_a_pickle_that_contains_itself_or_grows_by_sharing_is_read_in_bounded_time() -> None:
    cyclic: list[object] = []
    cyclic.append(cyclic)
    bomb: list[object] = []
    for _ in range(60):
        bomb = [bomb, bomb]
    for value in (cyclic, bomb):
        entry = {"record_id": 1, "input_sizes": value, "frames": value, "process_group": value}
        data = pickle.dumps(
            {"version": "2.4", "entries": [entry], "pg_config": {}, "pg_status": {}}
        )
        (found,) = dump_of(data).entries
        assert (found.record_id, found.frames) == (1, tuple("None:None None" for _ in value))


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/tmp/nccl_trace_rank_0", 0),
        ("/tmp/nccl_trace_rank_1023", 1023),
        ("straggler-rank3.pickle", 3),
        ("comm_lib_trace_rank_7.json", 7),
        ("trace.json", None),
    ],
)
def test_the_rank_is_read_from_the_name_of_the_file(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"{}",
        b'{"version": "1"}',
        b"{" * 90_000,
        b"\x80\x04.",
        b"\x80\x04]",
        b"\x80\x04N.",
        b"(.",
        b"0.",
        b"a.",
        b"\x80\x04h\x07.",
        b"}(u(.",
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(UnknownLayout):
        read([data])


def test_a_dump_is_recognised_in_both_forms() -> None:
    assert FORMAT.looks_like((FIXTURES / "straggler-rank0.json").read_bytes()[:65536]) == 0.9
    assert FORMAT.looks_like((FIXTURES / "healthy-rank0.pickle").read_bytes()) == 0.9
    assert FORMAT.looks_like(b"hello") == 0.0


def test_a_dump_without_operations_is_incomplete() -> None:
    empty = pickle.dumps({"version": "2.4", "pg_config": {}, "pg_status": {}, "entries": []})
    document = read((empty,))
    assert (document.complete, document.problems) == (
        False,
        ("a dump without operations: the recorder was off, or none was enqueued",),
    )


def test_groups_alone_say_how_far_they_came() -> None:
    def problems(completed: int) -> tuple[str, ...]:
        status = {"0": {"last_enqueued_collective": 6, "last_completed_collective": completed}}
        config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
        dump = {"version": "2.4", "pg_config": config, "pg_status": status, "entries": []}
        return read((pickle.dumps(dump),)).problems

    assert problems(6) == ()
    assert problems(5) == (
        "group default_pg: 6 operations were enqueued and 5 completed; the dump does not hold them",
    )
