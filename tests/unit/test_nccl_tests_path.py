"""How many modules a reader has to open to follow a table from text to record."""

from __future__ import annotations

import sys
from types import FrameType

from busbw.parsers.nccl_tests.table import parse

TABLE = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA H200
#  Rank  1 Group  0 Pid  41011 on     node-a device  1 [0000:2a:00] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    61.20   17.13   17.13       0    60.95   17.20   17.20       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 17.165
"""
PACKAGE = "busbw.parsers.nccl_tests."


def test_a_table_passes_through_a_module_for_each_subject_before_it_is_a_record() -> None:
    parse(TABLE)  # what the expressions are compiled from is read from a cache first
    modules: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("busbw."):
            modules.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        (result,) = parse(TABLE)
    finally:
        sys.setprofile(before)

    assert result.complete
    assert not result.problems
    outside_model = {name for name in modules if not name.startswith("busbw.model")}
    # They look for any words and cut any lines of any text, and know nothing of tables.
    outside_model -= {
        f"busbw.parsers.logs.{name}"
        for name in (
            "scan_literals",
            "scan_sieve",
            "required_literals",
            "blocks",
            "wrapped_warnings",
        )
    }
    assert outside_model == {
        PACKAGE + name
        for name in (
            *("table", "lines", "runs", "run_reader", "open_run", "run_facts", "around_tables"),
            *("torn_rows", "rows", "layout", "printed", "identity", "checks"),
            "contradictions",
        )
    }
