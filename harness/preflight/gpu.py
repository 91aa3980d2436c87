"""The GPUs a node has: `gpu.count`."""

from __future__ import annotations

import re

from busbw.preflight import CheckFamily, NodeAnswer, Section, unknown
from busbw.records import CheckResult, Evidence, Status

_GPU = re.compile(r"^GPU (\d+): (.+?) \(UUID: \S+\)\s*$", re.M)


def _count(answer: NodeAnswer) -> CheckResult:
    wanted = answer.node.gpus
    expected = f"{wanted} GPUs" if wanted is not None else "GPUs, as many as on the other nodes"
    result = unknown(answer, "gpu.count", "nvidia_smi_list", expected, "nvidia-smi -L")
    if result:
        return result
    output = answer.sections["nvidia_smi_list"]
    models = [model for _, model in _GPU.findall(output.stdout)]
    said = (output.stdout + output.stderr).strip()
    evidence = Evidence(answer.artefact, output.line_no, said[:400] or "(nothing printed)")
    if not models:
        found = f"no GPU ({said.splitlines()[0]})" if said else "no GPU (nvidia-smi -L printed nothing)"
        return CheckResult("gpu.count", answer.node.name, Status.FAIL, found, expected, "nvidia-smi -L", evidence=evidence)
    kinds = " + ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))
    bad = output.exit_status != 0 or (wanted is not None and len(models) != wanted)
    status = Status.FAIL if bad else Status.PASS
    reason = f"nvidia-smi ended with exit status {output.exit_status}" if output.exit_status else ""
    return CheckResult("gpu.count", answer.node.name, status, kinds, expected, "nvidia-smi -L", reason, evidence)


CHECK = CheckFamily(
    name="gpu",
    ids=("gpu.count",),
    # 30 s: without persistence mode the driver loads first; a GPU off the bus can hang it.
    sections=(Section("nvidia_smi_list", "nvidia-smi -L", timeout_s=30),),
    judge=lambda answer: (_count(answer),),
)
