"""Settings of NCCL on a node that do not do what they say: a value that it does not know, a release
that does not read it, another setting that takes its effect away (`busbw.fabrics.nccl_settings`)."""

from __future__ import annotations

import re

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    SectionOutput,
    once,
    results_of,
)
from busbw.fabrics import nccl_settings
from busbw.fabrics.nccl_settings import Trouble
from busbw.model import CheckResult

_COMMAND = "cat /etc/nccl.conf ~/.nccl.conf; env"
_RULE = Rule("sw.nccl_settings", "every NCCL setting of files and session does what it says")


@once
def _settings(output: SectionOutput, session: str, libraries: str) -> tuple[RuleResult, ...]:
    settings = nccl_settings.written(f"{output.stdout}\n{session}")
    releases = re.findall(r"^nccl \S*?libnccl\.so\.(\d[\d.]*)$", libraries, re.M)
    remarks = nccl_settings.remarks(settings, releases)
    if not remarks:
        known = [
            f"{name}={settings[name]}" for name in sorted(settings) if nccl_settings.known(name)
        ]
        return (_RULE.passed(", ".join(known) or "none"),)
    seen = "; ".join(remark.text for remark in remarks)[:400]
    wrong = any(remark.trouble is Trouble.VALUE for remark in remarks)
    result = _RULE.failed(seen) if wrong else _RULE.warned(seen)
    return (result.with_values(count=len(remarks)),)


def _text(answer: NodeAnswer, section: str) -> str:
    output = answer.section(section)
    return output.stdout if output is not None else ""


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    session, libraries = _text(answer, "environment"), _text(answer, "nccl_library")
    return results_of(
        answer,
        "nccl_conf",
        _COMMAND,
        (_RULE.check_id,),
        lambda output: _settings(output, session, libraries),
    )


CHECK = CheckFamily(
    name="nccl_settings",
    checks=(
        Check(
            _RULE.check_id,
            _COMMAND,
            "a value that NCCL does not accept: FAIL; a setting that this NCCL ignores, or that another"
            " setting overrides: WARN",
        ),
    ),
    sections=(),
    judge=_judge,
)
