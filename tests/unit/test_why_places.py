"""What `busbw why` answers to lines that look bad and are not, and which place it names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli import main, why_nodes, why_reading, why_text
from busbw.model import Evidence, Finding
from busbw.parsers.findings import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Fact


def _findings(folder: Path, **texts: str) -> tuple[Finding, ...]:
    """The findings of texts, each in a file of its own."""
    for name, text in texts.items():
        (folder / name).write_text(text)
    evidence = why_reading.read([str(folder)]).evidence
    return why_nodes.with_nodes(diagnose.diagnose(evidence)).findings


def _where(findings: tuple[Finding, ...], finding_id: str) -> tuple[str, ...]:
    return next(each.where for each in findings if each.id == finding_id)


_BOOT = """\
[Thu Nov 26 00:40:00 2026] Linux version 5.15.0-119-generic
[Thu Nov 26 00:40:02 2026] ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PC00.RP01._DSM], AE_NOT_FOUND
[Thu Nov 26 00:40:02 2026] pci 0000:00:1f.0: BAR 13: failed to assign [io  size 0x1000]
[Thu Nov 26 00:40:02 2026] pci 0000:3b:00.0: BAR 6: no space for [mem size 0x00080000 pref]
"""
_PROBE = """\
Nov 27 00:52:11 n3 sshd[41201]: error: kex_exchange_identification: Connection closed by remote host
Nov 27 00:52:11 n3 sshd[41201]: Connection closed by 10.0.0.9 port 51022
"""


def test_what_the_firmware_leaves_in_a_boot_log_is_no_failure(tmp_path: Path) -> None:
    assert _findings(tmp_path, log=_BOOT) == ()


def test_a_client_that_left_is_no_limit_of_sshd(tmp_path: Path) -> None:
    assert _findings(tmp_path, log=_PROBE) == ()


def test_a_limit_that_sshd_states_is_placed_at_the_host_of_the_line(tmp_path: Path) -> None:
    line = "Nov 27 00:52:11 n3 sshd[7]: drop connection #12 from [10.0.0.9]:51 on [10.0.0.2]:22 past MaxStartups\n"
    assert _where(_findings(tmp_path, **{"e15.journal": line}), "ssh-connection-limit") == ("n3",)


def test_a_typed_command_is_no_evidence(tmp_path: Path) -> None:
    assert _findings(tmp_path, log="leaf-03#show interfaces counters errors\n") == ()


def test_a_port_of_a_switch_is_no_node(tmp_path: Path) -> None:
    row = "swp3       down          9216   swp\n"
    assert "node-unreachable" not in {each.id for each in _findings(tmp_path, log=row)}


def test_the_kernels_line_names_the_adapter_and_the_file_server(tmp_path: Path) -> None:
    texts = {
        "gpu-11.dmesg": "mlx5_core 0000:48:00.0: Port module event: module 0, Cable unplugged\n",
        "gpu-12.dmesg": "nfs: server fs01 not responding, still trying\n",
    }
    findings = _findings(tmp_path, **texts)
    assert any({"gpu-11", "NIC 0000:48:00.0"} <= set(each.where) for each in findings)
    assert _where(findings, "io-straggler") == ("gpu-12", "file server fs01")


def test_the_row_of_nvidia_smi_names_the_gpu(tmp_path: Path) -> None:
    row = "|   3  NVIDIA H100 80GB HBM3          On  |   00000000:61:00.0 Off |                 ERR! |\n"
    assert _where(_findings(tmp_path, log=row), "gpu-fell-off-bus") == ("GPU 3",)


def test_the_gpu_of_the_lines_stands_in_the_command_that_resets_it(tmp_path: Path) -> None:
    line = "NVRM: Xid (PCI:0000:9b:00): 48, pid=1, name=python3, DBE (double bit error) ECC Error\n"
    findings = _findings(tmp_path, log=line)
    finding = next(each for each in findings if each.id == "gpu-ecc-uncorrectable")
    commands = [command for fix in finding.fixes for command in fix.commands]
    assert "nvidia-smi --gpu-reset -i 0000:9b:00" in commands


def _log(rank: int, version: str, comm: str = "0xabc") -> str:
    return (
        f"NCCL version {version}+cuda12.2\n"
        f"n{rank}:1{rank}:2 [0] NCCL INFO ncclCommInitRank comm 0x7f rank {rank} nranks 4 cudaDev 0"
        f" busId 1000 commId {comm} - Init START\n"
        f"n{rank}:1{rank}:2 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 2048 bytes"
        " instead of 1024\n"
    )


def test_the_release_that_one_host_states_alone_is_placed_there(tmp_path: Path) -> None:
    logs = {f"out.{rank}": _log(rank, "2.21.5" if rank < 3 else "2.18.5") for rank in range(4)}
    findings = _findings(tmp_path, **logs)
    assert (findings[0].id, findings[0].where) == ("nccl-version-mismatch", ("n3",))


def test_releases_of_two_communicators_are_not_compared(tmp_path: Path) -> None:
    logs = {"a": _log(0, "2.21.5"), "b": _log(1, "2.18.5", "0xdef")}
    findings = _findings(tmp_path, **logs)
    assert all("2.18.5" not in item.text for each in findings for item in each.evidence)


def test_an_address_that_others_do_not_reach_is_placed_at_its_publisher(tmp_path: Path) -> None:
    refused = (
        "NCCL WARN socketStartConnect: Connect to 172.17.0.1<43567> failed : Connection refused"
    )
    text = (
        "n1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        "n3:1:1 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n"
        f"n1:1:2 [0] misc/socket.cc:484 {refused}\n"
        f"n2:1:2 [0] misc/socket.cc:484 {refused}\n"
    )
    findings = _findings(tmp_path, log=text)
    assert (findings[0].id, findings[0].where) == ("socket-virtual-iface", ("n3",))


def test_of_ranks_that_all_wait_in_one_operation_none_is_missing(tmp_path: Path) -> None:
    text = "".join(
        f"n:{rank}:9 [0] NCCL INFO comm 0x7f rank {rank} nranks 4 cudaDev 0 busId 1000 commId 0xabc"
        " - Init COMPLETE\n"
        f"[rank{rank}]:[E1126 x.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout:"
        " WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000)\n"
        for rank in range(4)
    )
    findings = _findings(tmp_path, log=text)
    assert (findings[0].id, findings[0].where) == ("all-launched-not-completed", ())
    assert "rank-not-entering" not in {each.id for each in findings}


def test_a_cause_is_shown_without_the_errors_that_only_pass_it_on(tmp_path: Path) -> None:
    (tmp_path / "n3.dmesg").write_text("nfs: server fs01 not responding, still trying\n")
    (tmp_path / "n4.log").write_text(
        "[rank0]:[E1126 01:32:00.1 ProcessGroupNCCL.cpp:636] [Rank 0] To avoid data inconsistency, we"
        " are taking the entire process down.\n"
    )
    reading = why_reading.read([str(tmp_path)])
    diagnosis = diagnose.diagnose(reading.evidence)
    assert "secondary-error" in {each.id for each in diagnosis.findings}
    page = why_text.answer(diagnosis, diagnosis.findings, reading)
    assert "io-straggler" in page
    assert "secondary-error" not in page


def test_a_cable_that_stays_unplugged_is_a_port_that_is_down(tmp_path: Path) -> None:
    line = "mlx5_core 0000:48:00.0: Port module event: module 0, Cable unplugged\n"
    findings = _findings(tmp_path, **{"gpu-11.dmesg": line})
    assert (findings[0].id, findings[0].where) == ("ib-port-down", ("gpu-11", "NIC 0000:48:00.0"))


def _expired(rank: int, work: str = "OpType=ALLREDUCE, NumelIn=1, NumelOut=1") -> str:
    return (
        f"[rank{rank}]:[E1126 x.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout:"
        f" WorkNCCL(SeqNum=8, {work}, Timeout(ms)=600000) ran for 600029 milliseconds\n"
    )


def test_the_one_rank_in_another_collective_is_the_place(tmp_path: Path) -> None:
    text = "".join(map(_expired, (0, 1, 2, 4))) + _expired(
        3, "OpType=BROADCAST, NumelIn=7, NumelOut=7"
    )
    assert _where(_findings(tmp_path, log=text), "collective-desync") == ("rank 3",)


def test_the_one_rank_whose_file_has_no_time_out_is_the_place(tmp_path: Path) -> None:
    texts = {f"rank_{rank}.log": f"iter 7\n{_expired(rank)}" for rank in range(8) if rank != 5}
    findings = _findings(tmp_path, **texts, **{"rank_5.log": "iter 6\n"})
    assert (findings[0].id, findings[0].where) == ("rank-not-entering", ("rank 5",))


_MEMLOCK = """\
--------------------------------------------------------------------------
The OpenFabrics (openib) BTL failed to initialize while trying to
allocate some locked memory.  This typically can indicate that the
memlock limits are set too low.  For most HPC installations, the
memlock limits should be set to "unlimited".  The failure occured
here:

  Local host:    gpu-n17
  OMPI source:   btl_openib.c:752
  Device:        mlx5_0
  Memlock limit: 65536
--------------------------------------------------------------------------
"""


def test_the_host_of_a_help_block_is_the_place(tmp_path: Path) -> None:
    findings = _findings(tmp_path, log=_MEMLOCK)
    assert (findings[0].id, findings[0].where) == ("memlock-limit", ("gpu-n17",))


def test_the_name_above_a_listing_is_the_place(tmp_path: Path) -> None:
    pod = (
        "Name:             {}\nNamespace:        ml\nContainers:\n  pytorch:\n"
        "    Last State:     Terminated\n      Reason:       {}\n      Exit Code:    {}\n"
    )
    text = pod.format("trainer-1", "Completed", 0) + pod.format("trainer-2", "OOMKilled", 137)
    where = _where(_findings(tmp_path, log=text), "host-memory-exhausted")
    assert where == ("pod trainer-2",)


def test_the_rank_that_raised_is_placed_on_the_host_that_torchrun_states(tmp_path: Path) -> None:
    text = (
        "[rank0]: ncclRemoteError: A call failed possibly due to a network error\n"
        "[rank5]: Traceback (most recent call last):\n"
        '[rank5]:   File "/home/ml/data.py", line 77, in get\n'
        "[rank5]: KeyError: 'input_ids'\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  time      : 2026-03-11_02:45:01\n"
        "  host      : node07\n"
        "  rank      : 5 (local_rank: 5)\n"
        "  exitcode  : 1 (pid: 2306)\n"
    )
    where = _where(_findings(tmp_path, log=text), "program-error")
    assert where == ("node07", "rank 5")


def test_a_task_that_srun_names_is_placed_on_its_host(tmp_path: Path) -> None:
    text = (
        "[rank0]: OSError: [Errno 28] No space left on device: '/nvme/ckpt/a.pt'\n"
        "srun: error: gpu-003: task 0: Exited with exit code 1\n"
    )
    assert _where(_findings(tmp_path, log=text), "disk-full") == ("gpu-003", "rank 0")


def _answer(folder: Path, **texts: str) -> str:
    for name, text in texts.items():
        (folder / name).write_text(text)
    reading = why_reading.read([str(folder)])
    diagnosis = why_nodes.with_nodes(diagnose.diagnose(reading.evidence))
    return why_text.answer(diagnosis, diagnosis.findings, reading)


def test_beside_a_likely_cause_no_time_out_is_called_too_short(tmp_path: Path) -> None:
    fell = "[91220.613900] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off the bus.\n"
    page = _answer(tmp_path, **{"gpu-022.dmesg": fell, "train.log": _expired(3)})
    assert "gpu-fell-off-bus" in page
    assert "watchdog-timeout-short" not in page


def test_a_kernel_log_that_was_given_is_not_asked_for(tmp_path: Path) -> None:
    lost = (
        "[Wed Mar 11 03:05:10 2026] INFO: task python3:20111 blocked for more than 122 seconds.\n"
    )
    asked = "srun: error: gpu-07: task 25: Exited with exit code 1\nRuntimeError: NaN in layer 3\n"
    (tmp_path / "b").mkdir()
    assert "kernel logs" in _answer(tmp_path / "b", log=asked)
    page = _answer(tmp_path, **{"gpu-07.dmesg": lost, "train.log": asked})
    assert "  next " in page
    assert "kernel logs" not in page


def test_an_evidence_line_has_no_words_of_our_own() -> None:
    values = (("state", "DOWN"), ("most_alike_active", True))
    fact = Fact("preflight:rdma.port_state", values, Evidence("ibstat", None, "mlx5_3"))
    evidence = EvidenceSet(facts=(fact,))
    texts = {item.text for each in diagnose.diagnose(evidence).findings for item in each.evidence}
    assert texts == {"mlx5_3: state = DOWN"}


_SWITCH = "Mar 11 02:{:02d}:10.1 leaf07 {}\n"
_IDLE = "".join(_SWITCH.format(20, "INFO pmon#psud: PSU 1 power ok") for _ in range(150))


def test_the_port_of_a_switch_that_falls_again_and_again_is_the_place(tmp_path: Path) -> None:
    moves = (
        "NOTICE swss#orchagent: :- updatePortOperStatus: Port Ethernet144 oper state set from {}"
    )
    flaps = "".join(
        _SWITCH.format(minute, moves.format(way))
        for minute in range(4)
        for way in ("up to down", "down to up")
    )
    findings = _findings(tmp_path, syslog=flaps + _IDLE)
    assert (findings[0].id, findings[0].where) == ("link-flaps", ("leaf07", "Port Ethernet144"))
    once = _SWITCH.format(3, moves.format("up to down")) + _IDLE
    assert _findings(tmp_path, syslog=once) == ()


def test_a_pause_storm_that_a_switch_detects_is_found_at_its_port(tmp_path: Path) -> None:
    storm = (
        "WARNING swss#orchagent: :- startWdActionOnQueue: PFC Watchdog detected PFC storm on port"
        " Ethernet72, queue index 3"
    )
    findings = _findings(tmp_path, syslog=_SWITCH.format(3, storm) + _IDLE)
    assert (findings[0].id, findings[0].where) == ("pause-storm", ("leaf07", "port Ethernet72"))


def test_what_a_message_only_thinks_of_is_no_cause(tmp_path: Path) -> None:
    line = (
        "E0311 1990 coordination_service.cc:1170] /job:jax_worker/replica:0/task:5 has been set to"
        " ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 heartbeat"
        " timeout. This indicates that the remote task has failed, got preempted, or crashed"
        " unexpectedly. Check the task logs for an earlier error to debug further.\n"
    )
    findings = _findings(tmp_path, log="step=1 loss=2.1\n" * 120 + line)
    assert (findings[0].id, findings[0].where) == ("dead-process", ("task 5",))


def test_the_rows_of_dcgms_diagnosis_name_the_gpu(tmp_path: Path) -> None:
    table = (
        "| memory                    | Fail                                           |\n"
        "|                           | GPU2: Fail                                     |\n"
        "| Warning: GPU2             | Found 14 faulty memory elements on GPU 2       |\n"
    )
    assert "GPU 2" in _where(_findings(tmp_path, log=table), "gpu-ecc-uncorrectable")


def test_the_address_and_the_interface_of_an_adapter_are_no_node(tmp_path: Path) -> None:
    line = (
        "2026-06-25T18:51:40.36+00:00 gpu-17 kernel: mlx5_core 0000:9a:00.0 ibp154s0: Link down\n"
    )
    findings = _findings(tmp_path, log=line * 4)
    assert any(each.where[:1] == ("gpu-17",) for each in findings)


def test_of_more_places_than_are_shown_the_number_stands_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "nccl.log"
    bad = "gpu{}:10:12 [0] NCCL WARN NET/IB : Unable to open device mlx5_3\n"
    log.write_text("".join(bad.format(number) for number in range(20)))
    main(["why", str(log)])
    assert "gpu14, and 5 more\n" in capsys.readouterr().out

    main(["why", "--json", str(log)])
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    assert (len(finding["where"]), finding["where_more"]) == (16, 5)

    log.write_text(bad.format(1))
    main(["why", "--json", str(log)])
    assert json.loads(capsys.readouterr().out)["findings"][0]["where_more"] == 0


def test_a_line_without_a_place_is_of_the_only_host_whose_tasks_failed(tmp_path: Path) -> None:
    text = (
        "slurmstepd: error: pyxis: container start failed with error code: 1\n"
        "slurmstepd: error: pyxis:     [ERROR] No such file or directory: /images/a.sqsh\n"
    )
    failed = "srun: error: gpu-0{0}: task {0}: Exited with exit code 1\n"
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert _where(_findings(one, log=text + failed.format(1)), "container-start-failed") == (
        "gpu-01",
    )
    both = text + failed.format(1) + failed.format(2)
    assert _where(_findings(two, log=both), "container-start-failed") == ()


@pytest.mark.parametrize(
    "line",
    [
        "SUCCESS:  nhc:  Health check passed:  check_gpu_ecc: ECC checks passed\n",
        '2026-08-27 13:03:14 nhc: Running check:  "check_gpu_xid"\n',
        "[2026-06-21T13:26:03.372] debug:  Waiting for job 81219's prolog to complete\n",
    ],
)
def test_a_check_that_passed_and_a_step_of_a_daemon_are_no_failure(
    line: str, tmp_path: Path
) -> None:
    assert _findings(tmp_path, log=line) == ()
