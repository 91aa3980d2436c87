"""The vocabulary: every message of the releases that were read has a meaning, and every meaning is
an entry of the catalogue."""

from pathlib import Path

import pytest

from busbw.errors import ReadError
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Text
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.vocabulary import messages
from busbw.parsers.vocabulary.messages import Group, Kind, Lookup, Message

WORDS = Path(__file__).parents[1] / "fixtures" / "vocabulary"
"""One file for each writer: of each message its first and last release and the hashes of its words.
Written by `docs/tools/vocabulary.py WRITER REPOSITORY TAG… --words FILE`."""
WRITERS = tuple(each.writer for each in messages.writers())
LIKE = tuple(each.writer for each in messages.writers() if each.like)
"""Those whose lines carry the messages of another."""
TABLES = {each for each in {*WRITERS} - {*LIKE} if messages.groups(each)}
"""Those with messages of their own, not the places of their lines alone."""


def entries(writer: str) -> tuple[Message, ...]:
    return messages.messages(writer, messages.groups(writer))


def hashed_lookup(writer: str) -> Lookup:
    found = []
    for each in entries(writer):
        parts = tuple(f" {messages.hashed(part)} " for part in each.parts)
        found.append(Message(each.since, each.file, parts, each.group))
    return Lookup(found)


@pytest.mark.parametrize("writer", sorted(TABLES))
def test_every_message_of_the_releases_that_were_read_is_in_the_table(writer: str) -> None:
    lookup = hashed_lookup(writer)
    files = sorted(WORDS.glob(f"{writer}.*"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert lines
    assert [line for line in lines if lookup.find(line.split(" ", 2)[2]) is None] == []


@pytest.mark.parametrize("writer", WRITERS)
def test_a_group_names_entries_of_the_catalogue_with_weights_of_lines(writer: str) -> None:
    known = catalogue.load().by_id
    for group in messages.groups(writer):
        assert group.findings or group.kind is Kind.HARMLESS, group.messages
        for name, weight in group.findings.items():
            assert name in known
            assert Weight(weight) in (Weight.STRONG, Weight.WEAK)


@pytest.mark.parametrize("writer", WRITERS)
def test_no_two_groups_claim_the_same_words(writer: str) -> None:
    parts = [each.parts for each in entries(writer)]
    assert sorted(each for each in parts if parts.count(each) > 1) == []


def test_a_line_of_a_newer_release_is_known_by_the_function_that_it_names() -> None:
    known = "[8.1] NVRM: GPU0 knvlinkTrain_XY100: plaited quantum links lost in a new way"
    assert findings_of(known)[:1] == [("nvlink-link-inactive", "possible")]


def test_a_place_of_a_writer_names_entries_of_the_catalogue() -> None:
    known = catalogue.load().by_id
    for writer in messages.writers():
        for findings in writer.places.values():
            assert {*findings} <= {*known}
            assert {Weight(weight) for weight in findings.values()} <= {Weight.STRONG, Weight.WEAK}


def test_a_message_of_a_new_release_that_no_table_has_is_reported() -> None:
    new = messages.hashed(messages.words("Plaited quantum link … lost"))
    assert hashed_lookup("nccl").find(new) is None


def test_a_line_of_a_table_without_its_file_is_refused() -> None:
    groups = (Group(Kind.FINDING, "only words", {}),)
    with pytest.raises(ReadError, match="is not SINCE FILE  WORDS"):
        messages.messages("x", groups)


def findings_of(*lines: str) -> list[tuple[str, str]]:
    text = "".join(f"{line}\n" for line in lines)
    hits = Scanner(search_patterns()).scan([text.encode()]).hits
    found = diagnose(EvidenceSet((Text("a.log", hits),))).findings
    return [(each.id, each.confidence.value) for each in found if each.confidence]


PREFIX = "gpu3:4711:4798 [2] x.cc:12 NCCL WARN "


def test_a_warning_that_no_table_has_is_possible_and_never_silent() -> None:
    first, *guesses = findings_of(f"{PREFIX}Plaited quantum link 7 lost")
    assert first == ("unmapped-message", "possible")
    assert {confidence for _, confidence in guesses} <= {"possible"}


def test_a_warning_that_only_the_vocabulary_has_gives_its_finding() -> None:
    assert findings_of(f"{PREFIX}NET/IB: OOO RQ is force enabled but size 8 is less than the") == [
        ("ooo-receive-unsupported", "likely")
    ]


def test_rccl_reports_errors_of_its_own_level_without_the_name_of_the_library() -> None:
    fatal = "gpu3:4711:4798 [2] [FATAL ERROR]: "
    names = [name for name, _ in findings_of(f"{fatal}amdsmi_lib: device index 9 not found")]
    assert {*names} == {"gpu-driver-not-visible", "gpu-missing"}
    assert findings_of(
        f"{fatal}Application is trying to use an invalidated stream to launch RCCL kernel. "
        "This operation is invalid. RCCL is exiting."
    ) == [("nccl-api-misuse", "possible")]


def test_what_rccl_says_of_memory_that_it_does_without_is_no_cause() -> None:
    assert findings_of(f"{PREFIX}cuMem support requires Linux kernel >= 6.8") == [
        ("harmless-warning", "possible")
    ]


def test_what_an_expression_of_the_catalogue_says_of_a_line_stands() -> None:
    names = [name for name, _ in findings_of(f"{PREFIX}Duplicate GPU detected : rank 0 and rank 1")]
    assert names == ["duplicate-gpu"]


def test_a_known_warning_repeated_beyond_what_is_kept_of_it_is_not_unmapped() -> None:
    lines = (f"{PREFIX}Duplicate GPU detected : rank {n} and rank 1" for n in range(40))
    assert [name for name, _ in findings_of(*lines)] == ["duplicate-gpu"]


def test_a_table_is_read_only_when_a_line_of_its_writer_is_there() -> None:
    messages.lookup.cache_clear()
    findings_of("gpu3: a line of nobody")
    assert messages.lookup.cache_info().currsize == 0
    findings_of(f"{PREFIX}Plaited quantum link 7 lost")
    assert messages.lookup.cache_info().currsize == 1


DASHES = "-" * 74


def test_a_help_topic_of_open_mpi_is_read_between_its_dashes() -> None:
    topic = (
        "Open MPI's OFI driver detected multiple NICs on the system but cannot select an",
        "optimal device because the current process is not bound. This may negatively",
    )
    assert [name for name, _ in findings_of(DASHES, *topic, DASHES)] == ["mpi-setting-rejected"]


def test_a_rule_of_dashes_above_the_text_of_another_program_says_nothing() -> None:
    assert findings_of(DASHES, "My report of today", "all is well", DASHES) == []


def test_a_slurm_error_that_only_the_vocabulary_has_gives_its_finding() -> None:
    line = "slurmstepd: error: cgroup filesystem not mounted in /sys/fs/cgroup"
    assert "scheduler-node-configuration" in [name for name, _ in findings_of(line)]


def test_the_error_of_a_spank_plugin_is_no_message_of_slurm() -> None:
    names = [name for name, _ in findings_of("slurmstepd: error: ourplugin: Plaited link 7 lost")]
    assert "unmapped-message" not in names


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (
            "[E1105 10:00:03.1 socket.cpp:1019] [c10d] The server could not be initialized on any"
            " address for port=29500, family=2",
            ("rendezvous-port-in-use", "possible"),
        ),
        (
            "[W1105 10:00:03.1 TCPStore.cpp:141] [c10d] Starting store with 4096 workers but"
            " somaxconn is 128, this might cause instability during bootstrap.",
            ("bootstrap-timeout-scale", "likely"),
        ),
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 8 params, while"
            " rank 1 has inconsistent 9 params.",
            ("size-mismatch", "likely"),
        ),
        (
            "torch.distributed.DistBackendError: Distributed package doesn't have NCCL built in",
            ("framework-without-nccl", "certain"),
        ),
        (
            "ValueError: Group <object> is not registered, please create group with"
            " torch.distributed.new_group API",
            ("framework-api-misuse", "possible"),
        ),
    ],
)
def test_a_message_of_pytorch_gives_its_finding(line: str, finding: tuple[str, str]) -> None:
    assert findings_of(line) == [finding]


def test_a_harmless_remark_of_pytorch_is_no_finding() -> None:
    assert (
        findings_of(
            "[W1105 10:00:03.1 socket.cpp:752] [c10d] The client socket has failed to connect to"
            " [localhost]:29500 (errno: 97 - Address family not supported by protocol)."
        )
        == []
    )


def test_what_nccl_says_while_it_closes_is_no_cause() -> None:
    line = "n1:2293:2466 [0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable"
    assert findings_of(line) == [("secondary-error", "possible")]


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (
            "[8.1] mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 2682): Detected insufficient"
            " power on the PCIe slot (27W).",
            ("transceiver-hot", "possible"),
        ),
        (
            "[8.1] mlx5_core 0000:5c:00.0: wait_func:1136:(pid 71): MODIFY_CQ(0x403) timeout. Will"
            " cause a leak of a command resource",
            ("nic-stuck", "likely"),
        ),
        (
            "[8.1] amdgpu 0000:c1:00.0: amdgpu: Fatal error during GPU init",
            ("amdgpu-start-failed", "likely"),
        ),
        (
            "[8.1] amdgpu: qcm fence wait loop timeout expired",
            ("gpu-kernel-hung", "likely"),
        ),
        (
            "[8.1] efa 0000:00:1d.0: Admin queue is closed",
            ("nic-stuck", "likely"),
        ),
        (
            "[8.1] NVRM: GPU0 knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect"
            " Link mask!",
            ("nvlink-link-inactive", "likely"),
        ),
        (
            "[8.1] NVRM: GPU0 kgspBootstrap_GH100: GSP-FMC reported an error while attempting to"
            " boot GSP: 0x3",
            ("gpu-gsp-timeout", "possible"),
        ),
        (
            "[8.1] NVRM: GPU0 _gpuFabricProbeSendInband: Fabric probe failed: 0x62",
            ("fabricmanager-not-running", "likely"),
        ),
    ],
)
def test_a_message_of_the_kernel_gives_its_finding(line: str, finding: tuple[str, str]) -> None:
    assert findings_of(line)[:1] == [finding]


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (
            f'{PREFIX}Missing "amd_iommu=on" from kernel command line which can lead to system'
            " instablity or hang!",
            "iommu-translating",
        ),
        (f"{PREFIX}ROCm SMI init failure Generic failure", "gpu-driver-not-visible"),
    ],
)
def test_a_warning_that_only_rccl_prints_gives_its_finding(line: str, finding: str) -> None:
    assert finding in [name for name, _ in findings_of(line)]


def test_the_warning_of_nccl_that_pytorch_quotes_as_last_error_is_read() -> None:
    names = [
        name
        for name, _ in findings_of(
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or"
            " device error.",
            "Last error:",
            "NET/IB: OOO RQ is force enabled but size 8 is less than the",
        )
    ]
    assert "ooo-receive-unsupported" in names
    assert "unmapped-message" not in names


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (
            "| Warning | GPU 0 is running at PCI link width 8X, which is below the minimum allowed |",
            "gpu-pcie-degraded",
        ),
        ('"warning" : "NVSwitch 3\'s NvLink 4 is down."', "nvlink-link-inactive"),
        (
            "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0",
            "nvswitch-sxid",
        ),
        (
            "[Sep 17 2024 06:01:46] [ERROR] [tid 1230] failed to find the GPU handle 541 in the"
            " multicast team request setup 613.",
            "nvls-bind-failure",
        ),
        (
            "gpu3 nvidia-persistenced[812]: Failed to query NVIDIA devices. Please ensure that",
            "gpu-driver-not-visible",
        ),
    ],
)
def test_a_message_of_dcgm_or_a_service_of_nvidia_gives_its_finding(
    line: str, finding: str
) -> None:
    assert finding in [name for name, _ in findings_of(line)]


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (
            "(EngineCore pid=4711) ERROR 11-25 10:00:03 [core.py:700] ValueError: Invalid"
            " data-parallel launch options: `--nnodes 3` must evenly divide the total world size",
            "framework-parallel-sizes",
        ),
        (
            "RuntimeError: NIXL compatibility hash mismatch. Local: 1f, Remote: 2e.",
            "kv-transfer-failed",
        ),
        (
            "AssertionError: Mooncake moved its plaited quantum pages elsewhere",
            "kv-transfer-failed",
        ),
        (
            "ValueError: VLLM_PORT 'tcp://10.0.0.7:8000' appears to be a URI. This may be caused by"
            " a Kubernetes service discovery issue",
            "framework-setting-rejected",
        ),
        (
            "2026-11-25 10:00:03,120\tERROR scripts.py:120 -- Ray is trying to start at 10.0.0.7:6379,"
            " but is already running at 10.0.0.7:6379. Please specify a different port using the"
            " `--port` flag of `ray start` command.",
            "rendezvous-port-in-use",
        ),
    ],
)
def test_a_message_of_a_framework_gives_its_finding(line: str, finding: str) -> None:
    assert [name for name, _ in findings_of(line)][:1] == [finding]


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("slurmstepd: error: pyxis: failed to import docker image", "container-start-failed"),
        (
            "srun: error: pyxis: --container-image specified multiple times",
            "container-start-failed",
        ),
        (
            "E1125 10:00:03.120000       1 main.go:132] error building MIG device map: node-7",
            "gpu-mig-enabled",
        ),
        (
            'time="2026-11-25T10:00:03Z" level=error msg="error constructing low-level runtime: x"',
            "container-start-failed",
        ),
    ],
)
def test_a_message_of_a_container_tool_gives_its_finding(line: str, finding: str) -> None:
    assert finding in [name for name, _ in findings_of(line)]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "osm_ni_rcv: ERR 0D15: Duplicate Port GUID 0x3 found by the two directed routes",
            "ib-routing",
        ),
        ("state_mgr_sweep_hop_1: ERR 331B: Failure initiating NodeDescription request", "ib-peer"),
        ("ucast_plaited_engine: ERR 9900: 7 quantum links are plaited", "ib-routing"),
        ("osm_plaited_engine: ERR 9901: 7 quantum links are plaited", "ib-sm-unstable"),
    ],
)
def test_an_error_of_the_subnet_manager_gives_its_finding(text: str, finding: str) -> None:
    names = [name for name, _ in findings_of(f"Nov 25 10:00:03 120000 [7F00A700] 0x01 -> {text}")]
    assert names[0].startswith(finding)


def test_an_error_of_the_fabric_manager_is_no_message_of_a_container_tool() -> None:
    line = "[ERROR] failed to add multicast team with request ID 7 in partition 57082"
    names = [name for name, _ in findings_of(line)]
    assert names[:1] != ["container-start-failed"]
