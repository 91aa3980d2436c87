"""A finding is one entry of YAML, and a rule is one file: each is added to a copy of the sources, and
the copy's `busbw why` knows it."""

from __future__ import annotations

from pathlib import Path

from scratch_copy import scratch_copy

ENTRY = """
- id: purple-cable
  title: A cable is purple
  stage: init
  fabrics: [any]
  severity: low
  role: cause
  signals:
  - source: nccl-log
    weight: certain
    regex: 'cable is purple'
    matches: ['n1:1:1 [0] NCCL WARN cable is purple']
  rejects: ['n1:1:1 [0] NCCL WARN cable is black']
  cause: Somebody bought a purple cable.
  explanation: Purple cables are not faster.
  fix:
  - {needs: datacenter-hands, do: Replace the cable}
  verify: [busbw check]
  trust: High.
  references: [['nothing', 'https://example.org']]
"""
RULE = '''"""Two ranks that complain of purple together have no RDMA devices."""

from busbw.parsers.findings.evidence import Clue
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.catalogue import Weight

_PURPLE = Watch("purple", r"everything turned purple")


def _judge(view):
    lines = view.sightings("purple")
    if len({line.process for line in lines}) > 1:
        yield Clue("ib-not-detected", Weight.CERTAIN, "nccl-log", lines[0].evidence(), lines[0].place)


RULE = Rule(
    name="purple-pair",
    conclusion="Two ranks that see purple have no RDMA devices.",
    watches=(_PURPLE,),
    judge=_judge,
    fires=(Fires("a", (("ib-not-detected", "certain"),)),),
    silent=("b",),
)
'''


def test_a_finding_is_one_entry_in_one_file(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    copy.add("parsers/findings/host.yaml", ENTRY)
    assert copy.changed() == ["parsers/findings/host.yaml"]

    (tmp_path / "nccl.log").write_text("n1:1:1 [0] NCCL WARN cable is purple\n")
    explained = copy.run("why", "purple-cable").stdout
    diagnosed = copy.run("why", "nccl.log").stdout
    assert explained.startswith("purple-cable  A cable is purple\n")
    assert diagnosed.startswith("✖ CAUSE (certain)  A cable is purple ")


def test_a_rule_is_one_file(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    copy.add("parsers/findings/rules/purple_pair.py", RULE)
    assert copy.changed() == ["parsers/findings/rules/purple_pair.py"]

    line = "n1:1:1 [0] NCCL WARN everything turned purple\n"
    (tmp_path / "one.log").write_text(line)
    (tmp_path / "two.log").write_text(line + line.replace("n1:1", "n2:1"))
    assert "ib-not-detected" not in copy.run("why", "one.log").stdout
    assert "[ib-not-detected]" in copy.run("why", "two.log").stdout
