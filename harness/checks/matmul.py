"""A short matrix product on each GPU, where Python on the node has PyTorch: bfloat16, compared over
all GPUs of one model.

It loads each GPU for about a second, so it runs only when asked for. Nothing is installed: without
PyTorch the answer is unknown.
"""

from __future__ import annotations

import dataclasses
import re
from statistics import median

from busbw.checks import NodeAnswer, Section, unknown
from busbw.model import CheckResult, Evidence, Status

PRODUCT = "gpu.matmul"
LEAST = 0.85
"""Share of the median of its like below which a product or a copy is too slow: the mark of the
articles for a clear loss. Clocks of healthy GPUs under one power limit differ by a few percent."""
FEWEST = 3
"""GPUs of one model from which on their median says something."""
LIMIT_S = 120
_NO_TORCH = 3
MATMUL = Section("matmul", timeout_s=LIMIT_S, tool="python3", python=True)
_COMMAND = "python3 -c 'import torch; …'"
_EXPECTED = f"at least {LEAST:.0%} of the median of the GPUs of one model"
_LINE = re.compile(r"^matmul (\d+) (\d+(?:\.\d+)?) (\S.*)$", re.M)


def parse(text: str) -> tuple[tuple[int, float, str], ...]:
    """(GPU, TFLOP/s, model) of each line.

    >>> parse("matmul 0 687.3 NVIDIA H100 80GB HBM3\\n")
    ((0, 687.3, 'NVIDIA H100 80GB HBM3'),)
    """
    return tuple((int(gpu), float(rate), model.strip()) for gpu, rate, model in _LINE.findall(text))


def compared(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """The product of every GPU against the median of all GPUs of its model."""
    rates: dict[str, list[float]] = {}
    for answer in answers:
        for _, rate, model in _of(answer):
            rates.setdefault(model, []).append(rate)
    return tuple(_judged_matmul(answer, rates) for answer in answers)


def _of(answer: NodeAnswer) -> tuple[tuple[int, float, str], ...]:
    output = answer.section(MATMUL.name)
    return parse(output.stdout) if output is not None and output.exit_status == 0 else ()


def _judged_matmul(answer: NodeAnswer, rates: dict[str, list[float]]) -> CheckResult:
    blocked = unknown(answer, PRODUCT, MATMUL.name, _EXPECTED, _COMMAND)
    if blocked is not None:
        return dataclasses.replace(blocked, required=False)
    output, own = answer.sections[MATMUL.name], _of(answer)
    last_line = (output.stderr.strip() or output.stdout.strip()).splitlines()[-1:] or [
        f"exit status {output.exit_status}"
    ]
    if not own:
        none = (
            "Python on the node has no PyTorch"
            if output.exit_status == _NO_TORCH
            else "PyTorch did not get through, or sees no GPU"
        )
        return _unknown(answer, "not run", f"{none}: {last_line[0][:160]}", output.line_no)
    slow = [
        f"GPU {gpu}: {rate:g} of {median(rates[model]):g} TFLOP/s"
        for gpu, rate, model in own
        if len(rates[model]) >= FEWEST and rate < LEAST * median(rates[model])
    ]
    if not any(len(rates[model]) >= FEWEST for _, _, model in own):
        rates_text = ", ".join(f"GPU {gpu}: {rate:g} TFLOP/s" for gpu, rate, _ in own)
        return _unknown(
            answer,
            rates_text,
            f"fewer than {FEWEST} GPUs of this model: nothing to compare",
            output.line_no,
        )
    evidence = Evidence(
        answer.artefact, output.line_no, "; ".join(slow) or output.stdout.strip().splitlines()[0]
    )
    status = Status.FAIL if slow else Status.PASS
    return CheckResult(
        PRODUCT,
        answer.node.name,
        status,
        "; ".join(slow) or "alike",
        _EXPECTED,
        _COMMAND,
        evidence=evidence,
    )


def _unknown(answer: NodeAnswer, seen: str, reason: str, line_no: int) -> CheckResult:
    evidence = Evidence(answer.artefact, line_no, reason)
    return CheckResult(
        PRODUCT,
        answer.node.name,
        Status.UNKNOWN,
        seen,
        _EXPECTED,
        _COMMAND,
        reason,
        evidence,
        required=False,
    )
