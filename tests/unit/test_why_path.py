"""How many modules a finding passes through, from the rule that makes it to the terminal's line."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from busbw.cli import main, why_reading, why_text, why_verdict
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import Context

DEVICE_ACCESS = "pod-a:30:97 [0] NCCL WARN NET/IB : Unable to open device mlx5_3\n"
VOCABULARY = {f"busbw.{name}" for name in ("model", "errors", "units", "text", "plugins")}
RULES = "busbw.parsers.findings.rules."
NOTHING_TO_SAY = (
    "comparisons",  # there are no facts
    "contradictions",  # there is one text
    "expr",  # there are no facts
    "courses",  # whether the job outlived the line: no
    "crashes",  # no exception, no frame
    "failures",  # the finding explains the line
    "guesses",
    "known_lines",  # the line is none of the harmless ones
    "line_owners",  # it names its host
    "recoveries",  # nothing is said to be well again
    "makers",  # no mark of a fabric or of AMD's GPUs
    "message_clues",
    "signs",
    "similar",  # a rule asks it for words of the field
)


def modules_called(call: Callable[[], object]) -> set[str]:
    """The modules of busbw whose functions run in a call; the vocabulary that all share is left out.
    What a module does on import does not count."""
    names: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if event == "call" and name.startswith("busbw.") and frame.f_code.co_name != "<module>":
            names.add(name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {name for name in names if ".".join(name.split(".")[:2]) not in VOCABULARY}


def test_a_finding_reaches_the_terminal_through_at_most_fifteen_modules(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(DEVICE_ACCESS)
    main(["why", str(log)])  # tables are read and plug-ins imported once
    reading = why_reading.read([str(log)])
    lines: list[str] = []

    def from_rule_to_line() -> None:
        diagnosis = diagnose(reading.evidence, Context())
        lines.append(why_text.answer(diagnosis, why_verdict.worth_showing(diagnosis), reading))

    called = modules_called(from_rule_to_line)
    # What looks at the line and has nothing to say of it is not on the way.
    others = {name for name in called if name.startswith(RULES)} - {RULES + "device_access"}
    others |= {f"busbw.parsers.findings.{name}" for name in NOTHING_TO_SAY}
    others |= {"busbw.parsers.vocabulary.messages", "busbw.parsers.logs.scan"}
    assert "[container-no-ib-devices]" in lines[0]
    assert RULES + "device_access" in called
    assert len(called - others) <= 15, sorted(called - others)
