"""Findings in the words of whoever made the GPUs."""

import re

import pytest

from busbw.model import Finding, Fix, Status
from busbw.parsers.findings import catalogue, gpu_words
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import Diagnosis, EvidenceSet, Text
from busbw.parsers.findings.gpu_words import Gpus
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner

NOT_AMDS = re.compile(
    r"nvidia|\bXid|NVLink|NVSwitch|CUDA|dcgmi|Fabric Manager|\bnvcc\b", re.IGNORECASE
)
RESET = "[12.3] amdgpu 0000:83:00.0: amdgpu: GPU reset begin!"
ECC = "[12.3] amdgpu 0000:c1:00.0: amdgpu: 3 uncorrectable hardware errors detected in umc block"
XID = "[12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."


def said_of(*lines: str) -> Diagnosis:
    text = "\n".join(lines).encode()
    scan = Scanner(search_patterns()).scan([text])
    return diagnose(EvidenceSet((Text("dmesg.txt", scan.hits, scan.lines),)))


def texts(finding: Finding) -> list[str]:
    steps = [text for fix in finding.fixes for text in (fix.summary, *fix.commands)]
    return [finding.title, finding.cause, *steps, *finding.verify, *finding.would_settle]


@pytest.mark.parametrize("line", [RESET, ECC, "HIP error: an illegal memory access"])
def test_what_amds_driver_reports_is_explained_and_fixed_in_amds_words(line: str) -> None:
    findings = said_of(line).findings
    assert findings
    foreign = [text for each in findings for text in texts(each) if NOT_AMDS.search(text)]
    assert foreign == []


def test_an_uncorrectable_error_of_amd_is_looked_up_and_reset_by_amd_smi() -> None:
    first = said_of(ECC).findings[0]
    commands = [command for fix in first.fixes for command in fix.commands]
    assert first.id == "gpu-ecc-uncorrectable"
    assert "amd-smi metric --ecc" in commands
    assert "amd-smi reset --gpureset --gpu <gpu>" in commands


def test_nvidias_words_stay_where_nothing_shows_the_gpus_and_where_a_screen_has_an_amdgpu() -> None:
    alone = said_of(XID).findings[0]
    beside = said_of("[1.0] [drm] amdgpu kernel modesetting enabled.", XID).findings[0]
    unknown = said_of("NET/IB : no device found, 8 GPUs, uncorrectable ECC error encountered")
    assert alone == Finding(**{**_fields(beside), "evidence": alone.evidence})
    assert "Xid 79" in alone.title
    assert any("nvidia-smi" in text for each in unknown.findings for text in texts(each))


def _fields(finding: Finding) -> dict[str, object]:
    return {name: getattr(finding, name) for name in Finding.__dataclass_fields__}


def test_a_step_that_only_nvidia_has_is_left_out_and_a_neutral_one_stays() -> None:
    finding = Finding(
        "x",
        Status.FAIL,
        "An NVLink is inactive (Xid 74)",
        (),
        (),
        cause="Fabric Manager is down.",
        fixes=(
            Fix("Restart Fabric Manager", ("systemctl restart nvidia-fabricmanager",)),
            Fix("Look at the links", ("ssh NODE nvidia-smi nvlink -s", "nvidia-imex-ctl -N")),
            Fix("Reseat the board", needs="datacenter-hands"),
        ),
        verify=("nvidia-smi -q -d ECC", "busbw check"),
    )
    assert gpu_words.finding_for(finding, Gpus.AMD) == Finding(
        "x",
        Status.FAIL,
        "An XGMI link is inactive",
        (),
        (),
        fixes=(
            Fix("Look at the links", ("ssh NODE amd-smi xgmi --link-status",)),
            Fix("Reseat the board", needs="datacenter-hands"),
        ),
        verify=("amd-smi metric --ecc", "busbw check"),
    )
    assert gpu_words.finding_for(finding, Gpus.NVIDIA) is finding


def test_no_step_of_any_entry_asks_nvidias_tools_on_a_node_of_amd() -> None:
    foreign = []
    for entry in catalogue.load().entries:
        for step in catalogue.fixes(entry.id, gpus=Gpus.AMD):
            said = (step.summary, *step.commands)
            foreign += [(entry.id, text) for text in said if NOT_AMDS.search(text)]
    assert foreign == []


def test_locked_memory_is_raised_by_the_same_steps_wherever_it_is_too_small() -> None:
    by_id = catalogue.load().by_id
    steps = by_id["os.limits.memlock"].fix
    assert by_id["cross.limits"].fix == steps
    assert by_id["memlock-limit"].fix[-len(steps) :] == steps


LOOK = re.compile(r"(?:nvidia|amd)-smi (?:-q|metric|bad-pages)|cat |grep |env \||ulimit -[ln]'")


@pytest.mark.parametrize(
    "check_id",
    ["gpu.driver", "gpu.ecc", "gpu.remap", "os.iommu", "sw.env_file", "os.limits.nofile"],
)
@pytest.mark.parametrize("gpus", Gpus)
def test_the_fix_of_a_check_changes_something_and_is_verified(check_id: str, gpus: Gpus) -> None:
    finding = catalogue.filled(
        Finding(check_id, Status.FAIL, "", (), (), fixes=catalogue.fixes(check_id, gpus=gpus)),
        NODE="n1",
    )
    told = gpu_words.finding_for(finding, gpus)
    commands = [command for fix in told.fixes for command in fix.commands]
    assert commands
    assert [text for text in commands if LOOK.match(text)] == []
    assert LOOK.search(told.verify[0])
    assert told.verify[-1] == "busbw check"
