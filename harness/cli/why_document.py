"""The diagnosis as the JSON document that `busbw why --json` prints."""

from __future__ import annotations

from busbw.cli.why_reading import Reading
from busbw.model import Evidence, Finding, Fix
from busbw.parsers.findings.evidence import Diagnosis

Json = dict[str, object]


def document(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> Json:
    """What `--json` prints."""
    texts = reading.evidence.texts[:1000]
    return {
        "schema": "busbw.why/1",
        "findings": [_finding(each, diagnosis.more_places.get(each.id, 0)) for each in shown],
        "healthy": diagnosis.healthy,
        "unexplained": [_line(line) for line in diagnosis.unexplained],
        "notes": [*diagnosis.notes, *diagnosis.contradictions],
        "remarks": list(reading.remarks),
        "problems": list(dict.fromkeys((*reading.problems, *reading.gaps))),
        "read": [{"file": text.artefact, "lines": text.lines} for text in texts],
    }


def _finding(finding: Finding, more_places: int) -> Json:
    return {
        "id": finding.id,
        "confidence": finding.confidence.value,
        "status": finding.status.value,
        "title": finding.title,
        "cause": finding.cause,
        "where": list(finding.where),
        "where_more": more_places,
        "evidence": [_line(item) for item in finding.evidence],
        "fixes": [_fix(fix) for fix in finding.fixes],
        "verify": list(finding.verify),
        "would_settle": list(finding.would_settle),
        "also": list(finding.also),
        "explains": list(finding.explains),
    }


def _line(item: Evidence) -> Json:
    return {"file": item.artefact, "line": item.line_no, "text": item.text}


def _fix(fix: Fix) -> Json:
    return {
        "do": fix.summary,
        "run": list(fix.commands),
        "needs": fix.needs,
        "disruptive": fix.disruptive,
    }
