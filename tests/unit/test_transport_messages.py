"""The tables of transports and launchers on lines as these print them."""

from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Text
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.vocabulary import messages


def findings_of(*lines: str) -> list[tuple[str, str]]:
    text = "".join(f"{line}\n" for line in lines)
    hits = Scanner(search_patterns()).scan([text.encode()]).hits
    found = diagnose(EvidenceSet((Text("a.log", hits),))).findings
    return [(each.id, each.confidence.value) for each in found if each.confidence]


UCX = "[1721186746.658016] [node02:10366:1]  file.c:985  UCX  "


def test_each_error_of_ucx_has_its_own_cause() -> None:
    gid = f"{UCX}ERROR   invalid gid index 9 type on mlx5_0:1"
    pkey = f"{UCX}ERROR   There is no valid pkey to use on mlx5_0:1/IB"
    assert [name for name, _ in findings_of(pkey)][:1] == ["ib-pkey-mismatch"]
    assert "ib-pkey-mismatch" not in [name for name, _ in findings_of(gid)]


def test_a_warning_of_libfabric_is_read() -> None:
    line = "libfabric:4711:1721186746::tcp:ep_ctrl:xnet_rdm_cm():12<warn> WARN: peer 10.0.0.7 is behind firewall"
    assert ("firewall-blocks-ports", "likely") in findings_of(line)


def test_an_error_that_ucx_wraps_within_an_argument_is_known_by_its_call() -> None:
    lines = (
        f"{UCX}ERROR   ibv_create_ah(dlid=49152 sl=0 dgid=fe80::1 ",
        "flow_label=0) for RC DEVX",
    )
    assert "ucx-device-error" in [name for name, _ in findings_of(*lines)]


def test_a_completion_error_of_libibverbs_names_the_statuses_it_can_be() -> None:
    names = [name for name, _ in findings_of("mlx5: gpu7: got completion with error:")]
    assert "retry-exceeded-midrun" in names


def test_a_longer_message_is_not_taken_for_a_short_one_within_it() -> None:
    meaning = messages.meaning("ucx", f"{UCX}ERROR failed to insert region 0x1479 [0x0..0x0]: x")
    assert meaning
    assert "ucx-device-error" in meaning.group.findings


def test_an_exit_code_that_srun_reports_is_a_dead_process() -> None:
    line = "srun: error: gpu-node1: task 0: Exited with exit code 1"
    assert findings_of(line) == [("dead-process", "possible")]
