"""What `busbw why RUN` puts first: what the run puts first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.cli.why_reading import Reading
from busbw.cli.why_text import answer
from busbw.cli.why_verdict import with_findings, worth_showing
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.evidence import Diagnosis, EvidenceSet

SEEN = (Evidence("raw/x", None, "seen"),)
NODE = Finding(
    "slow-node", Status.FAIL, "node3 is slow", ("node3",), SEEN, explains=("slower-than-accepted",)
)
NUMBERS = Finding(
    "slower-than-accepted", Status.FAIL, "-40 %", (), SEEN, confidence=Confidence.CERTAIN
)
BUSY = Finding(
    "measured-while-busy", Status.WARN, "CPUs in use", (), SEEN, confidence=Confidence.CERTAIN
)


@pytest.mark.parametrize(
    ("sure", "of_the_texts"), [(Confidence.LIKELY, False), (Confidence.POSSIBLE, True)]
)
def test_the_node_comes_before_what_follows_from_it_however_sure_that_is(
    sure: Confidence, of_the_texts: bool
) -> None:
    text = Finding("xid", Status.FAIL, "a text", (), SEEN, confidence=Confidence.LIKELY)
    own = (replace(NODE, confidence=sure), NUMBERS, BUSY)
    reading = Reading(EvidenceSet(()), (), own)
    found = with_findings(Diagnosis((text,)), own)
    # The texts' own come first where they are surer than what the run blames.
    assert [each.id for each in found.findings].index("xid") == (0 if of_the_texts else 3)
    out = answer(found, worth_showing(found), reading)
    places = [out.index(f"[{name}]") for name in ("slow-node", "slower-than-accepted")]
    assert places == sorted(places)
    assert out.index("[slow-node]") < out.index("[measured-while-busy]")
    assert f"CAUSE ({sure.value})  node3 is slow" in out


def test_a_certain_cause_in_a_text_comes_before_a_likely_suspect() -> None:
    text = Finding("xid", Status.FAIL, "a text", (), SEEN, confidence=Confidence.CERTAIN)
    own = (replace(NODE, confidence=Confidence.LIKELY), NUMBERS)
    ids = [each.id for each in with_findings(Diagnosis((text,)), own).findings]
    assert ids == ["xid", "slow-node", "slower-than-accepted"]
