"""What launchers and collectors put in front of a line; the forms are those their documentation
gives."""

from __future__ import annotations

import pytest

from busbw.parsers.nccl_tests.lines import Prefixed, split_prefix, undecorate
from busbw.parsers.nccl_tests.table import parse

ROW = (
    "     8388608       2097152     float     sum      -1    96.41   87.01  163.14       0    95.88"
    "   87.49  164.05       0"
)
HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
    "   algbw   busbw  #wrong "
)
TEXT = f"{HEADER}\n{ROW}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 163.595 \n"


@pytest.mark.parametrize(
    ("line", "tag", "text"),
    [
        ("[1,3]<stdout>:text", "1,3", "text"),
        ("Fri Jul 10 09:00:00 2026[1,3]<stdout>:text", "1,3", "text"),
        ("Fri Jul 10 09:00:00 2026<stdout>:text", "", "text"),
        ("[1,3]<stdout>: text", "1,3", " text"),
        ("[1,3][node-b:52017]<stdout>: text", "1,3", " text"),
        ("[prterun-node-a-4711@1,3]<stdout>: text", "prterun-node-a-4711@1,3", " text"),
        ("[3]<stdout>: text", "3", " text"),
        ("[Fri Jul 10 09:00:00 2026]<stdout>: text", "", " text"),
        ("[Fri Jul 10 09:00:00 2026][1,3]<stdout>: text", "1,3", " text"),
        ('<stdout rank="3">text', "3", "text"),
        ("03: text", "03", " text"),
        ("[rank3]: text", "rank3", " text"),
        ("[default3]:text", "default3", "text"),
        ("[3] text", "3", " text"),
        ("(head, rank=0, pid=3808) [1,0]<stdout>:text", "head, rank=0, pid=3808/1,0", "text"),
        ("(worker pid=123, ip=10.0.0.1) text", "worker pid=123, ip=10.0.0.1", " text"),
        ("2026-07-10T09:00:00.123456789Z stdout F # Avg", "", " # Avg"),
        ("Jul 10 09:00:00 node-a run[12]: # Avg", "node-a", " # Avg"),
        ("INFO:bench:# Avg", "", "# Avg"),
        ("node01: # Avg", "node01", " # Avg"),
        ("[pod/launcher-abc/main] # Avg", "pod/launcher-abc/main", " # Avg"),
        ("worker-1  | # Avg", "worker-1", " # Avg"),
        ("out/a.log-12-# Avg", "out/a.log", "# Avg"),
        ("    17\t# Avg", "", "# Avg"),
        ('{"log":"# Avg', "", "# Avg"),
    ],
)
def test_each_form_is_taken_off_and_says_who_wrote(line: str, tag: str, text: str) -> None:
    assert split_prefix(line) == Prefixed(tag, text)


@pytest.mark.parametrize(
    "line",
    [
        ROW,
        HEADER,
        "gpu: Test CUDA failure common.cu:1030 'system not yet initialized'",
        "node-a:41011:41040 [0] NCCL INFO Connected all rings",
        "8388608\t2097152\tfloat\tsum\t-1\t96.41",
        "[sudo] password for m2: ",
        "user@GENOA-01:~/nccl-tests$ ./build/alltoall_perf",
    ],
)
def test_what_is_no_prefix_stays(line: str) -> None:
    assert split_prefix(line) == Prefixed("", line)


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,0]<stdout>:",
        " 0: ",
        "(head, rank=0, pid=3808) [1,0]<stdout>:",
        "2026-07-10 09:00:00 ",
        "> > ",
        "[node-a]  ",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\x1b[0m\n", "  \n"])
def test_a_table_is_the_same_behind_every_prefix(prefix: str, end: str) -> None:
    (result,) = parse("".join(f"{prefix}{line}{end}" for line in TEXT.splitlines()))
    assert ([row.size_bytes for row in result.rows], result.avg_busbw_gb_s, result.complete) == (
        [8388608],
        163.595,
        True,
    )


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("<", "&lt;").replace(" ", "&nbsp;"),
        "```\n" + TEXT + "```\n",
        "".join(f"    {line}\n" for line in TEXT.splitlines()),
        "".join(f'        "{line}",\n' for line in TEXT.splitlines()),
        '{"log":"' + TEXT.replace("\n", '\\n","stream":"stdout"}\n{"log":"') + "\n",
        'output = "' + TEXT.replace("\n", "\\n") + '"\n',
        TEXT.replace("#", ""),
        TEXT.replace("\n", "\r"),
        "\ufeff" + TEXT.replace(" ", "\u00a0"),
        "".join(
            (
                f"| {' | '.join(line.split())} |\n"
                if "float" in line or "algbw" in line
                else f"{line}\n"
            )
            for line in TEXT.splitlines()
        ),
        "".join(
            f"{','.join(line.split())}\n" if "float" in line or "algbw" in line else f"{line}\n"
            for line in TEXT.splitlines()
        ),
    ],
    ids=[
        "HTML",
        "fence",
        "indented",
        "list of strings",
        "docker log",
        "one string",
        "no hash",
        "bare CR",
        "no-break spaces",
        "Markdown table",
        "CSV",
    ],
)
def test_a_table_survives_where_people_paste_it(text: str) -> None:
    (result,) = parse(text)
    assert ([row.size_bytes for row in result.rows], result.avg_busbw_gb_s, result.complete) == (
        [8388608],
        163.595,
        True,
    )


def test_rows_of_several_hosts_running_their_own_job_stay_apart() -> None:
    hosts = "".join(
        f"{host}: {line}\n" for line in TEXT.splitlines() for host in ("node01", "node02")
    )
    results = parse(hosts)
    assert [(len(result.rows), result.complete, result.faults) for result in results] == [
        (1, True, ())
    ] * 2


def test_a_host_whose_job_died_leaves_the_others_table_whole() -> None:
    died = (
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg"
        " iters: 1 validation: 1 graph: 0"
    )
    lines = TEXT.splitlines()
    text = "".join(
        f"node01: {line}\n" + (f"node02: {died}\n" if at == 0 else "")
        for at, line in enumerate(lines)
    )
    good, bad = sorted(parse(text), key=lambda result: -len(result.rows))
    assert (len(good.rows), good.complete, len(bad.rows), bad.complete) == (1, True, 0, False)


def test_tags_that_tear_a_table_apart_are_no_writers() -> None:
    text = "".join(f"[{number}] {line}\n" for number, line in enumerate(TEXT.splitlines(), 100))
    (result,) = parse(text)
    assert (len(result.rows), result.complete) == (1, True)


def test_undecorate_takes_colours_and_line_ends_off() -> None:
    assert undecorate("\x1b]0;title\x07\x1b[1;32m# Avg\x1b[0m\r\n") == "# Avg"
