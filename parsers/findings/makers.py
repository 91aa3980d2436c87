"""Whose fabric and whose GPUs the evidence shows, by the marks that each maker's software leaves in
lines."""

from __future__ import annotations

from dataclasses import replace

from busbw.fabrics.profiles import families
from busbw.parsers.findings import gpu_words
from busbw.parsers.findings.evidence import Context, EvidenceSet
from busbw.parsers.findings.gpu_words import Gpus
from busbw.parsers.logs.scan import Pattern


def patterns() -> tuple[Pattern, ...]:
    """The marks to search for, of which one line says it all."""
    marks = [gpu_words.AMD_MARK, gpu_words.NVIDIA_MARK]
    for family in families().values():
        marks += (*family.marks, *family.rivals)
    return tuple(Pattern(regex, regex, keep=1, common_after=0) for regex in marks)


def with_fabrics(context: Context, evidence: EvidenceSet) -> Context:
    """What is known beforehand, with the fabrics that lines show, and those in whose place they show
    another provider."""
    seen, absent = set(), set()
    for family in families().values():
        if any(map(evidence.has, family.marks)):
            seen.add(family.name)
        if any(map(evidence.has, family.rivals)):
            absent.add(family.name)
    return replace(context, seen=frozenset(seen - absent), absent=frozenset(absent))


def gpus_of(evidence: EvidenceSet) -> Gpus:
    """Whose GPUs they are: what a check of the node says, then the lines. NVIDIA's count first: such
    a node may have an amdgpu for its screen."""
    if any(fact.record().get(gpu_words.GPUS) == Gpus.AMD for fact in evidence.facts):
        return Gpus.AMD
    is_amd = evidence.has(gpu_words.AMD_MARK) and not evidence.has(gpu_words.NVIDIA_MARK)
    return Gpus.AMD if is_amd else Gpus.NVIDIA
