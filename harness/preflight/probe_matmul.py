"""A short matrix product on each GPU, where Python on the node has PyTorch: bfloat16, compared over all GPUs of one model.

It loads each GPU for about a second, so it runs only when asked for. Nothing is installed: without PyTorch the answer is unknown.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from statistics import median

from busbw.preflight import NodeAnswer, Section, unknown
from busbw.records import CheckResult, Evidence, Status

PRODUCT = "gpu.matmul"
LEAST = 0.85
"""Share of the median of its like below which a GPU is too slow. Clocks of healthy GPUs under one power limit differ by a few percent."""
FEWEST = 3
"""GPUs of one model from which on their median says something."""
LIMIT_S = 120
_NO_TORCH = 3
_PROGRAM = f"""\
import sys
try:
    import torch
except Exception as error:
    print("no torch:", error, file=sys.stderr)
    sys.exit({_NO_TORCH})
size, rounds = 8192, 40
for gpu in range(torch.cuda.device_count()):
    torch.cuda.set_device(gpu)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(rounds):
        a @ b
    end.record()
    torch.cuda.synchronize()
    print("matmul", gpu, round(2 * size**3 * rounds / start.elapsed_time(end) / 1e9, 1), torch.cuda.get_device_name(gpu), flush=True)
    del a, b
"""
SECTION = Section("matmul", f"python3 -c {shlex.quote(_PROGRAM)}", LIMIT_S, tool="python3")
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
    return tuple(_judged(answer, rates) for answer in answers)


def _of(answer: NodeAnswer) -> tuple[tuple[int, float, str], ...]:
    output = answer.section(SECTION.name)
    return parse(output.stdout) if output is not None and output.exit_status == 0 else ()


def _judged(answer: NodeAnswer, rates: dict[str, list[float]]) -> CheckResult:
    blocked = unknown(answer, PRODUCT, SECTION.name, _EXPECTED, _COMMAND)
    if blocked is not None:
        return dataclasses.replace(blocked, required=False)
    output, own = answer.sections[SECTION.name], _of(answer)
    said = (output.stderr.strip() or output.stdout.strip()).splitlines()[-1:] or [f"exit status {output.exit_status}"]
    if not own:
        none = "Python on the node has no PyTorch" if output.exit_status == _NO_TORCH else "PyTorch did not get through, or sees no GPU"
        return _unknown(answer, "not run", f"{none}: {said[0][:160]}", output.line_no)
    slow = [
        f"GPU {gpu}: {rate:g} of {median(rates[model]):g} TFLOP/s"
        for gpu, rate, model in own
        if len(rates[model]) >= FEWEST and rate < LEAST * median(rates[model])
    ]
    if not any(len(rates[model]) >= FEWEST for _, _, model in own):
        shown = ", ".join(f"GPU {gpu}: {rate:g} TFLOP/s" for gpu, rate, _ in own)
        return _unknown(answer, shown, f"fewer than {FEWEST} GPUs of this model: nothing to compare", output.line_no)
    evidence = Evidence(answer.artefact, output.line_no, "; ".join(slow) or output.stdout.strip().splitlines()[0])
    status = Status.FAIL if slow else Status.PASS
    return CheckResult(PRODUCT, answer.node.name, status, "; ".join(slow) or "alike", _EXPECTED, _COMMAND, evidence=evidence)


def _unknown(answer: NodeAnswer, found: str, reason: str, line_no: int) -> CheckResult:
    evidence = Evidence(answer.artefact, line_no, reason)
    return CheckResult(PRODUCT, answer.node.name, Status.UNKNOWN, found, _EXPECTED, _COMMAND, reason, evidence, required=False)
