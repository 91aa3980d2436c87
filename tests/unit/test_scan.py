"""The scanner finds what a naive search of every line finds, whatever the chunks."""

from __future__ import annotations

import dataclasses
import pickle
import random
import re
import tracemalloc
from collections.abc import Callable

import pytest

from busbw.parsers.findings import catalogue
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs import failure_lines, scan_literals
from busbw.parsers.logs.blocks import (
    BLOCK_BYTES,
    LONGEST_LINE,
    Piece,
    as_shown,
    blocks,
    line_ends_in,
)
from busbw.parsers.logs.nccl_facts import PATTERNS as PATTERNS_OF_LOGS
from busbw.parsers.logs.required_literals import erased, required_literals, shape_of
from busbw.parsers.logs.scan import (
    COMMON_LINES,
    SAMPLED_BLOCKS,
    Hit,
    Line,
    Pattern,
    Scanner,
    Search,
    process_of,
)
from busbw.parsers.logs.scan_literals import LiteralFinder
from busbw.parsers.logs.scan_sieve import Branch, Finder, Sieve

PATTERNS = (
    Pattern("no-ib", r"NET/IB ?: No device found"),
    Pattern("retry", r"Got completion.*(?:status=(?:IBV_WC_RETRY_EXC_ERR\()?12|error 12)\b"),
    Pattern("not-gdr", r"via NET/IB/\d+(?:\(\d+\))?(?:/Shared)?\s*$"),
    Pattern("gdr", r"via NET/\S+/GDRDMA"),
    Pattern("init", r"Init COMPLETE"),
    Pattern("using-without-ro", r"NET/IB ?: Using(?!.*\[RO\])"),
    Pattern("dead", r"(?-i:\bDEAD\b)|considered dead"),
    Pattern("modify-qp", r"ibv_modify_qp failed with (?:error )?(?:61 )?No data available"),
    Pattern("affinity", r"[Ss]etting affinity for GPU \d+ to"),
)


def composed_log(lines: int, seed: int = 1) -> list[str]:
    """Lines in the documented grammar, of 16 processes, with rare ones among many plain ones."""
    rng = random.Random(seed)
    made = []
    for _ in range(lines):
        rank = rng.randrange(16)
        prefix = f"gpu-{rank // 8:02d}:{4000 + rank}:{5000 + rank} [{rank % 8}] "
        kind = rng.random()
        if kind < 0.5:
            made.append(
                prefix + f"NCCL INFO Channel {rank:02d}/0 : {rank}[1] -> {rank + 1}[2] [send] via"
                f" NET/IB/{rank % 8}/GDRDMA"
            )
        elif kind < 0.98:
            made.append(
                prefix + f"NCCL INFO AllReduce: opCount {rng.getrandbits(16):x} sendbuff"
                f" 0x{rng.getrandbits(48):x} [nranks=16]"
            )
        else:
            made.append(prefix + rng.choice(RARE))
    return made


RARE = (
    "NCCL INFO NET/IB : No device found.",
    (
        "transport/net_ib.cc:95 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<47001> with"
        " error 12, opcode 0, len 0, vendor err 129"
    ),
    (
        "transport/net_ib.cc:95 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<47001> with"
        " status=IBV_WC_RETRY_EXC_ERR(12) vendor_err=129"
    ),
    (
        "transport/net_ib.cc:95 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<47001> with"
        " error 4, opcode 0, len 0, vendor err 81"
    ),
    "NCCL INFO Channel 01/0 : 8[0] -> 15[7] [send] via NET/IB/0(1)/Shared",
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>",
    "NCCL INFO comm 0xdead rank 3 nranks 16 cudaDev 3 busId 18000 - Init COMPLETE",
    "NCCL INFO setting affinity for GPU 3 to ff",
    "peer is DEAD",
)


def naive(
    lines: list[str], patterns: tuple[Pattern, ...] = PATTERNS
) -> dict[tuple[str, str | None], list[int]]:
    """What every line, searched with every expression, gives: the lines per pattern and process."""
    found: dict[tuple[str, str | None], list[int]] = {}
    flags = re.IGNORECASE | re.ASCII
    compiled = [
        (each, re.compile(each.regex, flags), re.compile(each.unless or "(?!)", flags))
        for each in patterns
    ]
    for line_no, line in enumerate(lines, 1):
        for pattern, expression, unless in compiled:
            if expression.search(line) and not unless.search(line):
                process = process_of(line.encode())
                found.setdefault((pattern.id, process.decode() if process else None), []).append(
                    line_no
                )
    return found


def booked(hits: tuple[Hit, ...]) -> dict[tuple[str, str | None], tuple[int, list[int]]]:
    return {
        (hit.pattern, hit.process): (hit.line_count, [line.line_no for line in hit.examples])
        for hit in hits
    }


def gen_line(rng: random.Random) -> str:
    """One line as a large job writes them."""
    rank, gpu = rng.randrange(1024), rng.randrange(8)
    comm = (
        f"comm 0x{rng.getrandbits(44):x} rank {rank} nranks 1024 cudaDev {gpu} busId {gpu}8000"
        f" commId 0x{rng.getrandbits(60):x}"
    )
    kinds = (
        f"ncclCommInitRank {comm} - Init {rng.choice(('START', 'COMPLETE'))}",
        f"Channel {gpu:02d}/0 : {rank}[{gpu}] -> {rank + 8}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA",
        f"NVLS multicast support is available on dev {gpu}",
        f"NCCL_IB_TIMEOUT set by environment to {gpu + 14}.",
        (
            f"AllReduce: opCount {rank:x} sendbuff 0x{rng.getrandbits(44):x} count 262144 datatype"
            f" 7 op 0 root 0 {comm} [nranks=1024]"
        ),
    )
    return (
        f"node{rank // 8:03d}:{40000 + rank}:{42000 + rank} [{gpu}] NCCL INFO {rng.choice(kinds)}"
    )


MakeFinder = Callable[[tuple[Branch, ...]], Finder]
FINDERS = pytest.mark.parametrize("finder", [LiteralFinder, Sieve])
"""With the library, and without."""


@FINDERS
@pytest.mark.parametrize("chunk", [37, 4096, 1 << 20])
def test_every_match_of_a_naive_search_is_found_with_its_line_and_process(
    chunk: int, finder: MakeFinder
) -> None:
    lines = composed_log(3000)
    data = ("\n".join(lines) + "\n").encode()
    scan = Scanner(PATTERNS, finder).scan(
        data[at : at + chunk] for at in range(0, len(data), chunk)
    )
    expected = {key: (len(line_nos), line_nos[:4]) for key, line_nos in naive(lines).items()}
    assert booked(scan.hits) == expected
    assert (scan.lines, scan.size_bytes, scan.common, scan.problems) == (3000, len(data), (), ())


def every_pattern() -> tuple[Pattern, ...]:
    """All that `read` and `why` look for, as if every line of it mattered; none of it is common in so
    short a log."""
    by_id = {pattern.id: pattern for pattern in (*PATTERNS_OF_LOGS, *search_patterns())}
    return tuple(
        dataclasses.replace(pattern, common_after=max(COMMON_LINES, pattern.common_after))
        for pattern in by_id.values()
    )


def lines_of_the_table(seed: int) -> list[str]:
    """The lines that entries of the catalogue must match or must not, bare and behind prefixes,
    among plain ones."""
    rng = random.Random(seed)
    told = [
        line
        for symptom in catalogue.load().entries
        for signal in symptom.signals
        for line in signal.matches
    ]
    told += [line for symptom in catalogue.load().entries for line in symptom.rejects]
    lines = composed_log(500, seed)
    for text in told:
        prefix = rng.choice(("", "", "[1,7]<stderr>: ", "gpu3:41:42 [0] NCCL INFO ", "[rank5]: "))
        lines.insert(rng.randrange(len(lines)), prefix + text.replace("\n", " "))
    # what runs on behind a warning has tests of its own
    return [line.replace("NCCL WARN", "NCCL warning") for line in lines]


@pytest.mark.parametrize(("seed", "finder"), [(5, LiteralFinder), (6, LiteralFinder), (5, Sieve)])
def test_all_expressions_find_in_a_mangled_log_with_all_lines_of_the_table_what_a_naive_search_finds(
    seed: int, finder: MakeFinder
) -> None:
    rng = random.Random(seed)
    lines = lines_of_the_table(seed) + [gen_line(rng) for _ in range(500)]
    rng.shuffle(lines)
    glue = ("\n", "\n", "\n", "\r\n", "\n\n", "", " ", "\x1b[0m\n", "\n\0", "\x1b[31;1m")
    data = "".join(line + rng.choice(glue) for line in lines).encode()
    clean = re.sub(r"\x1b\[[\d;]*m|\r|\0", "", data.decode()).split("\n")
    patterns = every_pattern()
    scan = Scanner(patterns, finder).scan(
        data[at : at + 50_000] for at in range(0, len(data), 50_000)
    )
    keep = {pattern.id: pattern.keep for pattern in patterns if not pattern.distinct}
    expected = {
        key: (len(line_nos), line_nos[: keep[key[0]]])
        for key, line_nos in naive(clean, patterns).items()
        if key[0] in keep
    }
    assert len(expected) > 500
    assert {key: found for key, found in booked(scan.hits).items() if key[0] in keep} == expected
    assert scan.common == ()


@pytest.mark.parametrize("least_misses", [0, 1 << 40])
def test_a_long_varied_log_gives_the_same_with_the_library_and_without_whatever_was_learnt(
    least_misses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patterns become common, and branches are searched as a whole: neither may show."""
    monkeypatch.setattr(scan_literals, "_MOST_MISSES", least_misses)
    least_events = 0 if least_misses == 0 else 1 << 40
    monkeypatch.setattr(scan_literals, "_EVENTS_PER_EXPRESSION", least_events)
    rng = random.Random(9)
    lines = [gen_line(rng) for _ in range(9_000)] + lines_of_the_table(7)
    rng.shuffle(lines)
    data = ("\n".join(lines) + "\n").encode()
    patterns = tuple(
        dataclasses.replace(pattern, common_after=50) for pattern in PATTERNS_OF_LOGS
    ) + tuple(failure_lines.patterns())
    with_library = Scanner(patterns, LiteralFinder).scan([data, data])
    assert with_library == Scanner(patterns, Sieve).scan([data, data])
    assert len(with_library.common) > 3


def test_a_distinct_pattern_finds_the_line_behind_a_warning_once_even_where_it_belongs_to_it() -> (
    None
):
    text = (
        b"a:1:2 [0] x.cc:1 NCCL WARN Call to cudaGetVersion failed with\ncudaDriverVersion"
        b" 12040\nb:3:4 [0] NCCL INFO cudaDriverVersion 12040\n"
    )
    hits = Scanner((Pattern("driver", r"cudaDriverVersion \d+", distinct=True),)).scan([text]).hits
    assert [
        (each.process, each.line_count, [line.line_no for line in each.examples]) for each in hits
    ] == [("a:1", 1, [1]), ("b:3", 1, [3])]


def test_a_common_pattern_is_named_and_counted_only_once_in_sixteen_blocks_from_then_on() -> None:
    lines = [
        f"gpu{n % 4}:{n % 4 + 10}:77 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via NET/IB/0/GDRDMA"
        for n in range(COMMON_LINES + 30_000)
    ]
    data = ("\n".join(lines) + "\n").encode()
    scan = Scanner((Pattern("gdr", r"via NET/\S+/GDRDMA"),)).scan([data])
    total = sum(hit.line_count for hit in scan.hits)
    assert scan.common == ("gdr",)
    assert (
        COMMON_LINES
        < total
        < COMMON_LINES + 2 * BLOCK_BYTES // 70 + len(data) // BLOCK_BYTES // SAMPLED_BLOCKS + 2
    )
    assert [hit.process for hit in scan.hits] == ["gpu0:10", "gpu1:11", "gpu2:12", "gpu3:13"]


def test_a_line_that_was_examined_is_counted_once_where_one_of_its_shape_before_it_did_not_match() -> (
    None
):
    lines = [f"gpu1:41:42 [0] NCCL INFO Channel {n} via NET/IB/3\n" for n in ("10", "01", "02")]
    pattern = Pattern("via", r"Channel 0\d via NET", distinct=True)
    (hit,) = Scanner((pattern,)).scan(["".join(lines).encode()]).hits
    assert hit.line_count == 2


def test_a_distinct_pattern_keeps_one_line_per_process_and_last_word_however_many_there_are() -> (
    None
):
    pattern = Pattern("via", r" via (?:NET|P2P)/", keep=16, distinct=True, common_after=100_000)
    lines = [
        f"gpu{n % 3}:{n % 3 + 10}:77 [0] NCCL INFO Channel {n % 16:02d}/0 : 1[1] -> 2[2] via"
        f" NET/IB/{n % 2}/GDRDMA"
        for n in range(30_000)
    ]
    lines.append("gpu9:19:77 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P/IPC")
    scan = Scanner((pattern,)).scan([("\n".join(lines)).encode()])
    assert scan.common == ()
    assert [
        (hit.process, hit.line_count, [line.text.split()[-1] for line in hit.examples])
        for hit in scan.hits
    ] == [
        ("gpu0:10", 10_000, ["NET/IB/0/GDRDMA", "NET/IB/1/GDRDMA"]),
        ("gpu1:11", 10_000, ["NET/IB/1/GDRDMA", "NET/IB/0/GDRDMA"]),
        ("gpu2:12", 10_000, ["NET/IB/0/GDRDMA", "NET/IB/1/GDRDMA"]),
        ("gpu9:19", 1, ["P2P/IPC"]),
    ]
    assert scan.hits[-1].examples == (Line(30_001, lines[-1]),)


def test_a_warning_wrapped_over_two_lines_is_searched_as_one() -> None:
    text = (
        b"plain\n[2026-07-10 09:00:00] gpu1:41:42 [0] misc/ibvwrap.cc:380 (wrap) NCCL WARN Call to"
        b" ibv_modify_qp failed with 61\nNo data available, on dev mlx5_0:1, curr state"
        b" INIT\ngpu1:41:42 [0] NCCL INFO misc/x.cc:1 -> 2\n"
    )
    (hit,) = Scanner(PATTERNS).scan([text]).hits
    assert (hit.pattern, hit.process, hit.line_count) == ("modify-qp", "gpu1:41", 1)
    assert hit.examples[0].line_no == 2
    assert hit.examples[0].text.endswith(
        "NCCL WARN Call to ibv_modify_qp failed with 61 No data available, on dev mlx5_0:1, curr"
        " state INIT"
    )


def test_what_follows_a_warning_but_is_a_statement_of_its_own_is_not_joined_to_it() -> None:
    scanner = Scanner((Pattern("both", r"NCCL WARN .*CUDA error"),))
    assert (
        scanner.scan(
            [b"a:1:2 [0] x.cc:1 NCCL WARN something else\nRuntimeError: CUDA error: unknown\n"]
        ).hits
        == ()
    )


def test_colours_carriage_returns_and_zero_bytes_do_not_hide_a_match() -> None:
    scanner = Scanner((Pattern("end", r"via NET/IB/\d+$"),))
    (hit,) = scanner.scan(
        [b"x\r\n\x1b[31mgpu1:4:5 [0] NCCL INFO Channel 00 : 0 -> 1 \x00via NET/IB/0\x1b[0m\r\n"]
    ).hits
    assert hit.examples == (Line(2, "gpu1:4:5 [0] NCCL INFO Channel 00 : 0 -> 1 via NET/IB/0"),)


def test_what_stands_behind_a_progress_bar_is_found_and_its_earlier_states_are_not() -> None:
    scanner = Scanner((Pattern("end", r"CANCELLED|\b50%"),))
    bar = (
        b"".join(b"\r %d%% done" % share for share in range(1000)) + b"slurmstepd: CANCELLED\r\r\n"
    )
    (hit,) = scanner.scan([b"start\r\n" + bar + b"50% of it"]).hits
    assert hit.examples == (Line(2, " 999% doneslurmstepd: CANCELLED"), Line(3, "50% of it"))


def test_a_line_longer_than_any_log_line_is_cut_and_said_to_be() -> None:
    scanner = Scanner((Pattern("needle", "needle"),))
    scan = scanner.scan(
        [
            b"needle"
            + b"x" * 10_000
            + b"needle\nneedle\n"
            + b"y" * (3 * BLOCK_BYTES)
            + b"needle\nneedle"
        ]
    )
    assert [line.line_no for line in scan.hits[0].examples] == [1, 2, 4]
    assert scan.lines == 4
    assert scan.problems == (
        f"2 lines are longer than {LONGEST_LINE} bytes and were searched only up to there",
    )


def test_a_match_that_could_run_on_into_blank_lines_is_counted_once() -> None:
    (hit,) = (
        Scanner((Pattern("end", r"listening\s*$"),)).scan([b"listening\n\n\nlistening  \n\n"]).hits
    )
    assert hit == Hit("end", None, 2, (Line(1, "listening"), Line(4, "listening  ")))


def test_a_scanner_survives_pickling_as_a_pool_of_workers_needs_it() -> None:
    scanner = pickle.loads(pickle.dumps(Scanner(PATTERNS)))
    assert (
        scanner.scan([b"a:1:2 [0] NCCL INFO NET/IB : No device found.\n"]).hits[0].pattern
        == "no-ib"
    )


def test_a_wrong_or_double_pattern_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unbalanced group in '\\(unclosed' at 10"):
        Scanner((Pattern("bad", "(unclosed"),))
    with pytest.raises(ValueError, match="nothing to repeat in 'a\\|\\*b' at 2"):
        Scanner((Pattern("bad", "a|*b"),))
    with pytest.raises(ValueError, match="class not understood in '\\[a' at 0"):
        Scanner((Pattern("bad", "[a"),))
    with pytest.raises(ValueError, match="nothing behind the last character of"):
        Scanner((Pattern("bad", "a\\"),))
    with pytest.raises(ValueError, match="pattern ids given twice: \\['same'\\]"):
        Scanner((Pattern("same", "a"), Pattern("same", "b")))
    with pytest.raises(ValueError, match="group not known here"):
        Scanner((Pattern("atomic", "(?>a)b"),))


@FINDERS
def test_patterns_made_of_hex_letters_or_of_two_letters_are_found_and_these_are_slow(
    finder: MakeFinder,
) -> None:
    patterns = (Pattern("ecc", r"dead|802"), Pattern("fine", "lost|gone"), Pattern("ab", r"\bab\b"))
    scanner = Scanner(patterns, finder)
    assert scanner.slow == ("ab",)
    hits = scanner.scan([b"x\nCUDA error 802\nit is Dead\nan ab\n"]).hits
    found = {hit.pattern: [line.line_no for line in hit.examples] for hit in hits}
    assert found == {"ecc": [2, 3], "ab": [4]}


def test_memory_does_not_grow_with_the_length_of_a_log() -> None:
    chunk = ("\n".join(composed_log(1000)) + "\n").encode()

    def peak(times: int) -> int:
        tracemalloc.start()
        try:
            assert scanner.scan(chunk for _ in range(times)).lines == 1000 * times
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    scanner = Scanner(PATTERNS_OF_LOGS)
    peak(4)  # what is learned once
    assert peak(160) < 1.2 * peak(40)


def test_lines_beyond_what_memory_is_to_hold_are_counted_and_said_not_to_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("busbw.parsers.logs.scan._MOST_LINES", 3)
    (hit,) = Scanner((Pattern("x", "needle", keep=10),)).scan([b"needle\n" * 5]).hits
    assert (hit.line_count, [line.line_no for line in hit.examples]) == (5, [1, 2, 3])
    scan = Scanner((Pattern("x", "needle", keep=10),)).scan([b"needle\n" * 5])
    assert scan.problems == ("2 matching lines beyond the first 3 were counted and not kept",)


def test_of_each_line_what_a_terminal_shows_in_the_end_is_kept() -> None:
    rng = random.Random(5)
    for _ in range(2_000):
        text = bytes(rng.choices(b"ab\r\n", (3, 3, 2, 2), k=rng.randrange(24)))
        shown = [line.rstrip(b"\r").split(b"\r")[-1] for line in text.split(b"\n")]
        assert as_shown(text) == b"\n".join(shown)


def test_of_what_one_line_says_hardly_any_other_line_is_looked_at() -> None:
    """A pattern that is common from its first line on; with the library, each block wakes Python once
    for one literal."""
    data = b"".join(b"rank%d nccl up\n" % rank for rank in range(40_000))
    for finder, most in ((LiteralFinder, 10), (Sieve, 7500)):
        scan = Scanner((Pattern("x", "nccl", keep=1, common_after=0),), finder).scan([data])
        (hit,) = scan.hits
        assert (hit.examples[0].text, scan.common) == ("rank0 nccl up", ("x",))
        assert hit.line_count < most


def test_a_pattern_of_which_a_few_lines_are_enough_is_not_looked_for_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patterns = (Pattern("step", r"step \d{2,}.*loss", common_after=2), Pattern("bad", "ERROR"))
    block = b"step 10 loss 1\n" * (BLOCK_BYTES // 15) + b"ERROR\n"
    found: list[int] = []
    matches = scan_literals._matches

    def counted(database: object, text: bytes) -> list[int]:
        own = matches(database, text)
        found.append(len(own))
        return own

    monkeypatch.setattr(scan_literals, "_matches", counted)
    step, bad = Scanner(patterns, LiteralFinder).scan([block] * 4).hits

    assert max(found[:2]) > 1_000
    assert max(found[2:]) < 10, "in later blocks it is found again and again"
    assert (step.line_count >= 3, bad.line_count) == (True, 4)


def test_blocks_do_not_depend_on_how_the_input_was_cut() -> None:
    data = ("\n".join(composed_log(4000, seed=3))).encode()
    whole = list(blocks([data]))
    assert list(blocks(data[at : at + 1000] for at in range(0, len(data), 1000))) == whole
    assert b"\n".join(block.text for block in whole) == data
    assert sum(block.text.count(b"\n") + 1 for block in whole) == 4000


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"NET/IB ?: No device found", ("net/ib : no device found", "net/ib: no device found")),
        (
            r"Failed to open libibverbs\.so|Coun?t not open",
            ("cout not open", "count not open", "failed to open libibverbs.so"),
        ),
        (r"async (?:fatal )?event:? .*port (?:error|active)", ("port active", "port error")),
        (r"\d+", ()),
        (r"a|\d+", ()),
        (r"NCCL_IB_HCA set to (?![\^=])[^\s]*mlx5_1(?:[:,\s]|$)", ("nccl_ib_hca set to ",)),
        (r"(?:x{0,3})port{2}", ("por",)),
    ],
)
def test_required_literals_are_the_most_telling_plain_text(
    pattern: str, literals: tuple[str, ...]
) -> None:
    assert required_literals(pattern) == tuple(sorted(literals))


def test_the_erased_expression_matches_the_shape_of_what_the_expression_matches() -> None:
    line = "node3:41011 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0(1)/Shared"
    pattern = r"via NET/IB/\d+(?:\(\d+\))?(?:/Shared)?\s*$"
    assert re.search(pattern, line)
    assert re.search(erased(pattern), shape_of(line), re.IGNORECASE)
    assert not re.search(erased(pattern), shape_of(line + "/GDRDMA"), re.IGNORECASE)


def test_the_line_ends_of_each_piece_are_counted_whatever_is_in_it() -> None:
    long = b"x" * 300_000
    text = (
        b"a\x1b[1mb\n10%\r20%\r\n"
        + long
        + b"\n\n\0c\n"
        + long
        + b"\n"
        + b"line\n" * 50_000
        + b"end"
    )
    for chunk in (1000, 120 << 10, len(text)):
        chunks = [text[at : at + chunk] for at in range(0, len(text), chunk)]
        pieces = list(Search(Scanner((Pattern("x", "line"),)), chunks))
        assert [line_ends_in(piece) for piece in pieces] == [piece.count(b"\n") for piece in pieces]
        assert all(isinstance(piece, Piece) for piece in pieces)
        assert len(pieces) > 5


def test_the_patterns_of_one_line_are_those_that_count_it() -> None:
    patterns = (
        Pattern("words", r"rank \d+ (?:died|failed)|\bno route\b"),
        Pattern("unless", r"error: \w", unless=r"error: (?:0|none)\b"),
        Pattern("end", r"\w+ failed$"),
        Pattern("start", r"^\s*fatal"),
        Pattern("other", r"caf\w+ closed"),
    )
    scanner = Scanner(patterns)
    lines = {
        "Rank 3 FAILED": ("words", "end"),
        "rank 3 failed, no route, Error: x": ("words", "unless"),
        "error: none": (),
        "  FATAL error: 1": ("unless", "start"),
        "caf\u00e9 closed": ("other",),  # bytes would know no letter there
        "x failed\nfatal": (),
        "": (),
    }
    for line, ids in lines.items():
        assert scanner.ids_in(line) == ids, line
        assert ids == tuple(pattern.id for pattern in patterns if pattern.counts(line)), line


def test_the_first_line_that_counts_is_found_where_one_is_enough() -> None:
    pattern = Pattern("nccl", r"rank\d", common_after=0, unless="INFO")
    hits = Scanner((pattern,)).scan([b"INFO rank1\nWARN rank2\nWARN rank3\n"]).hits
    assert hits[0].examples[0].line_no == 2
