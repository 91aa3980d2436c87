"""`busbw expect` as a person and as a machine reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from plans import run_plan

from busbw import cli, playbook
from busbw.fabrics import profiles
from busbw.fabrics.profile import undetected
from busbw.model import Cluster, Node
from busbw.parsers.expect import figures, judge
from busbw.playbook import contract
from busbw.playbook.template import TEMPLATE
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import PreflightArtefact, PreflightEntry

H100 = ("expect", "--gpu", "H100", "--nics", "8x400", "--fabric", "infiniband")


def answered(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = cli.main(argv)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_answer_leads_with_the_limit_and_what_tuned_systems_reach(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, err = answered(capsys, *H100, "--nodes", "8")
    assert (status, err) == (0, "")
    assert out.splitlines()[:5] == [
        "all_reduce on 8 nodes of 8 x H100, 8 x 400 Gb/s, infiniband",
        "",
        (
            "limit       450.0 GB/s  nothing exceeds it: min((n-1)/(g(k-1)) W, max(2(n-1)/n g/(g+1)"
            " N, N + B))"
        ),
        "         k = 8, g = 8, W = 400 GB/s, N = 450 GB/s, P = 63.015 GB/s",
        "expect        322 to 370 GB/s where ring runs, for large messages",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "published, same regime: 3 rows, median 365.8 GB/s",
        (
            "     386.6 GB/s at 8 GiB  8 nodes; CoreWeave nccl-tests README,"
            " https://github.com/coreweave/nccl-tests/blob/master/README.md, 2026-05"
        ),
        "floors that clouds and tools ship (to pass, not to expect)",
        (
            "     800.0 GB/s  refused, no system of this kind gives it at 128 MiB: AWS distributed"
            " training samples"
        ),
        "quoted by articles, without a run's output: never judged by",
        "by message size, share of the figure for the largest",
        (
            "  B200-SXM6, 4 x 8 GPUs, another GPU: 1 MiB 1% · 16 MiB 17% · 64 MiB 41% · 256 MiB 60%"
            " · 1 GiB 95% · 4 GiB 99% · 16 GiB 100%; "
        ),
        "  384 Gb/s  floor, ib_write_bw, 400G; OCI HPC stack health checks",
        "a few bytes, by NCCL's model: tree 45.2 µs, ring 156.4 µs",
        "source   GPU: 18 NVLinks x 25, NVIDIA H100 data sheet",
    ],
)
def test_each_kind_of_figure_stands_apart_with_its_source(
    capsys: pytest.CaptureFixture[str], line: str
) -> None:
    assert line in answered(capsys, *H100, "--nodes", "8")[1]


@pytest.mark.parametrize(
    ("nodes", "limit"),
    [(1, 700.0), (2, 750.0), (3, 575.0), (4, 516.7), (8, 450.0), (16, 423.3), (64, 405.6)],
)
def test_json_carries_the_same_limit_as_the_text(
    capsys: pytest.CaptureFixture[str], nodes: int, limit: float
) -> None:
    status, out, _ = answered(capsys, *H100, "--nodes", str(nodes), "--json")
    document = json.loads(out)
    assert (status, round(document["expectation"]["limit"]["value_gb_s"], 1)) == (0, limit)
    assert (document["comparison"], document["expectation"]["question"]["nodes"]) == (None, nodes)


@pytest.mark.parametrize(
    ("options", "title", "limit"),
    [
        (("--nodes", "18"), "all_reduce on 1 NVLink domain of 72 x GB200", 1750.7),
        (
            ("--nodes", "36", "--nics", "4x400", "--fabric", "infiniband"),
            "all_reduce on 2 NVLink domains of 72 x GB200, 72 x 400 Gb/s, infiniband",
            1763.0,
        ),
    ],
)
def test_the_trays_of_a_rack_are_one_node(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], title: str, limit: float
) -> None:
    argv = ("expect", "--gpu", "GB200", "--nvlink-domain", "18", *options)
    assert answered(capsys, *argv)[1].splitlines()[0] == title
    document = json.loads(answered(capsys, *argv, "--json")[1])
    assert document["expectation"]["limit"]["value_gb_s"] == pytest.approx(limit, abs=0.05)


def test_nodes_that_do_not_fill_their_domains_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ("expect", "--gpu", "GB300", "--nvlink-domain", "18", "--nodes", "20", "--nics", "8x400")
    status, out, err = answered(capsys, *argv, "--fabric", "rocev2")
    assert (status, out, err.splitlines()) == (
        2,
        "",
        [
            "busbw: error: 20 nodes do not fill NVLink domains of 18",
            "busbw: seen: 2 nodes left over",
            "busbw: next: give the nodes that the run takes of each domain, such as 16 of 18",
        ],
    )


def test_the_same_question_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys, *H100, "--nodes", "2", "--json") == answered(
        capsys, *H100, "--nodes", "2", "--json"
    )


def test_two_nodes_end_with_the_trap(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        answered(capsys, *H100, "--nodes", "2")[1].splitlines()[-1]
        == "note: NVLink binds, not the network: at 478 GB/s the NICs carry 64% of their rate, so"
        " the number cannot show that the fabric is healthy. To test the fabric: NCCL_ALGO=Ring,"
        " four nodes or more, or alltoall"
    )


def test_a_contract_shows_what_it_would_catch(capsys: pytest.CaptureFixture[str]) -> None:
    out = answered(capsys, *H100, "--nodes", "8", "--contract", "360")[1]
    assert out.splitlines()[2:4] == [
        "contract: 360 GB/s is 80% of the limit",
        (
            "contract: meeting it would catch the loss of one of 8 NICs, which leaves 347.8 GB/s at"
            " best"
        ),
    ]


def test_one_node_needs_neither_nics_nor_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answered(capsys, "expect", "--gpu", "H200", "--nodes", "1")
    assert (status, out.splitlines()[0]) == (0, "all_reduce on 1 node of 8 x H200")
    assert "published, same regime: 4 rows, median 477.5 GB/s" in out
    assert "  shown, not counted:\n     367.6 GB/s at 16 GiB  good; ring; 1 node; " in out
    assert "one NIC by perftest" not in out


def test_nearest_rows_are_called_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    out = answered(
        capsys, "expect", "--gpu", "H200", "--nodes", "64", "--nics", "8x400", "--fabric", "rocev2"
    )[1]
    assert (
        "published: no row of this regime; 1 nearest (nearest, not the same)\n     320.0 GB/s "
        " differs: GPU H100; 4 nodes; " in out
    )


def test_unknown_hardware_still_gets_its_limits(capsys: pytest.CaptureFixture[str]) -> None:
    argv = (
        "expect",
        "--nvlink-gb-s",
        "500",
        "--gpus-per-node",
        "8",
        "--nodes",
        "4",
        "--network-gb-s",
        "300",
        "--fabric",
        "rocev2",
    )
    status, out, _ = answered(capsys, *argv)
    assert status == 0
    assert out.startswith(
        "all_reduce on 4 nodes of 8 x GPU with 500 GB/s of NVLink, 300 GB/s of network per node,"
        " rocev2\n\nlimit       387.5 GB/s"
    )
    assert "published: no row of this regime or near it" in out
    assert (
        out.splitlines()[-1]
        == "note: NCCL's rate for these links is not known: limits only, no estimate"
    )


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (
            ("--gpu", "H101", "--nodes", "8", "--nics", "8x400"),
            (
                (
                    "busbw: error: unknown GPU 'H101'; known: V100, A100, A800, H100, H200,"
                    " H200NVL, H20, H800, B200, GB200, B300, GB300, Rubin, MI300X, MI325X, MI350X,"
                    " MI355X, L40S, RTXPRO6000, RTX5090"
                ),
                "busbw: seen: --gpu H101",
                (
                    "busbw: next: every limit can still be given from rates: --nvlink-gb-s 450"
                    " --gpus-per-node 8 in the place of --gpu (NVLink of one GPU, one direction);"
                    " NCCL's own estimate and published rows cannot"
                ),
            ),
        ),
        (
            ("--gpu", "H100", "--nics", "8x400"),
            (
                (
                    "busbw: error: the node count is missing: one node, two, three, and four or"
                    " more are different regimes"
                ),
                (
                    "busbw: seen: without --nodes; the limit in GB/s by node count is 1: 700, 2:"
                    " 750, 3: 575, 4: 517, 8: 450, 16: 423, 64: 406"
                ),
                "busbw: next: --nodes 8",
            ),
        ),
        (
            (
                "--gpu",
                "H100",
                "--nodes",
                "8",
                "--nics",
                "8x400",
                "--fabric",
                "infiniband",
                "--contract",
                "800",
            ),
            (
                (
                    "busbw: error: no cluster can meet this contract: 800 GB/s is above the"
                    " physical limit of 450.0 GB/s: min((n-1)/(g(k-1)) W, max(2(n-1)/n g/(g+1) N, N"
                    " + B)), k = 8, g = 8, W = 400 GB/s, N = 450 GB/s, P = 63.015 GB/s"
                ),
                "busbw: seen: --contract 800",
                (
                    "busbw: next: ask for the node count, the algorithm and the unit behind the"
                    " number: Gb/s are eight times GB/s, and NVLink sums count both directions"
                ),
            ),
        ),
        (
            ("--gpu", "H100", "--nodes", "8", "--fabric", "infiniband"),
            (
                "busbw: error: 8 nodes need a network: the NICs are missing",
                "busbw: seen: neither --nics nor --network-gb-s",
                "busbw: next: --nics 8x400, or ask for one node: --nodes 1",
            ),
        ),
        (
            ("--gpu", "H100", "--nodes", "8", "--nics", "8x400"),
            (
                (
                    "busbw: error: 8 nodes need a fabric; known: azure-ib,"
                    " coreweave-ib, coreweave-roce, crusoe-ib, efa, gcp-gib, gcp-tcpx, gcp-tcpxo,"
                    " infiniband, infiniband-sharp, nebius-ib, oci, pollara, rocev2, slingshot,"
                    " spectrum-x, spectrum-x-plugin, tcp, tcp-100g, thor2"
                ),
                "busbw: next: --fabric infiniband",
            ),
        ),
        (
            (
                "--nodes",
                "8",
            ),
            (
                "busbw: error: the GPU is missing",
                "busbw: seen: neither --gpu nor --nvlink-gb-s",
                "busbw: next: --gpu H100, or --nvlink-gb-s 450 --gpus-per-node 8",
            ),
        ),
        (
            (
                "--gpu",
                "H100",
                "--nodes",
                "2",
                "--nics",
                "8x400",
                "--fabric",
                "infiniband",
                "--collective",
                "allreduce",
            ),
            (
                "busbw: error: unknown collective 'allreduce'; did you mean 'all_reduce'?",
                "busbw: seen: --collective allreduce",
                (
                    "busbw: next: known: all_reduce, all_gather, reduce_scatter, alltoall,"
                    " broadcast, reduce, sendrecv, gather, scatter,"
                    " hypercube"
                ),
            ),
        ),
        (
            ("--gpu", "H100", "--nodes", "-2"),
            (
                "busbw: error: --nodes must be above 0",
                "busbw: seen: -2",
                "busbw: next: leave it out where it is not known",
            ),
        ),
        (
            (
                "--gpu",
                "H100",
                "--nodes",
                "2",
                "--nics",
                "8x400",
                "--fabric",
                "rocev2",
                "--mtu",
                "100",
            ),
            (
                "busbw: error: RoCE needs a device MTU of at least 352, found 100",
                "busbw: seen: --mtu 100",
                "busbw: next: give the MTU of the network device, such as 9000",
            ),
        ),
        (
            ("--gpu", "H100", "--nodes", "1", "--gpus-per-node", "1"),
            (
                "busbw: error: a collective needs two GPUs or more",
                "busbw: seen: 1 node with 1 GPU",
                "busbw: next: --nodes 2",
            ),
        ),
    ],
)
def test_bad_input_ends_with_what_is_missing_and_what_is_known(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    assert answered(capsys, "expect", *argv) == (2, "", "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("extra", "status", "head"),
    [
        (("--measured", "338"), 0, "PASS  338.0 GB/s at 8 GiB"),
        (("--measured", "200"), 1, "FAIL  200.0 GB/s at 8 GiB"),
        (("--measured", "300", "--size", "16G"), 0, "WARN  300.0 GB/s at 16 GiB"),
        (("--measured", "381", "--contract", "380"), 0, "PASS  381.0 GB/s at 8 GiB"),
        (("--measured", "500"), 1, "FAIL  500.0 GB/s at 8 GiB"),
    ],
)
def test_a_measured_number_sets_the_exit_status(
    capsys: pytest.CaptureFixture[str], extra: tuple[str, ...], status: int, head: str
) -> None:
    found, out, _ = answered(capsys, *H100, "--nodes", "8", *extra)
    assert (found, out.splitlines()[2]) == (status, head)


def test_only_between_nodes_gather_is_bounded_without_pxn_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """PXN sends through the NICs of a node's other GPUs: inside one node nothing crosses a NIC."""
    for nodes, shown in (("1", False), ("2", True)):
        _, out, _ = answered(capsys, *H100, "--nodes", nodes, "--collective", "gather")
        assert ("gather without PXN: " in out) is shown


@pytest.mark.parametrize(
    "collective",
    [
        "all_gather",
        "reduce_scatter",
        "alltoall",
        "broadcast",
        "reduce",
        "sendrecv",
        "gather",
        "scatter",
        "hypercube",
    ],
)
@pytest.mark.parametrize("gpu", ["A100", "GB200", "MI300X", "RTX5090", "Rubin"])
@pytest.mark.parametrize("nodes", ["1", "2", "64"])
def test_every_collective_is_answered_on_every_kind_of_gpu(
    capsys: pytest.CaptureFixture[str], collective: str, gpu: str, nodes: str
) -> None:
    argv = (
        "expect",
        "--gpu",
        gpu,
        "--nodes",
        nodes,
        "--nics",
        "8x400",
        "--fabric",
        "rocev2",
        "--collective",
        collective,
    )
    status, out, err = answered(capsys, *argv)
    assert (status, err, out.startswith(f"{collective} on {nodes} node")) == (0, "", True)


def test_it_answers_in_a_directory_without_anything(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    argv = [
        sys.executable,
        "-m",
        "busbw",
        "expect",
        "--gpu",
        "B200",
        "--nodes",
        "2",
        "--nics",
        "8x400",
        "--fabric",
        "rocev2",
    ]
    result = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path_factory.mktemp("nowhere"),
        env={"PATH": "/nonexistent"},
    )
    assert (result.returncode, result.stderr, result.stdout.splitlines()[2][:22]) == (
        0,
        "",
        "limit       750.0 GB/s",
    )


def test_the_rules_of_others_are_stated_with_what_is_made_of_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = answered(capsys, *H100, "--nodes", "8")[1].splitlines()
    start = lines.index("rules by which others judge")
    assert len(figures.load().rules) == 6
    assert all(rule.used and rule.source.title for rule in figures.load().rules)
    assert any(
        line.startswith("  peak busbw of a ring is 12, 24 or 48 GB/s")
        and "(here 8 x 48 = 384 GB/s)" in line
        for line in lines[start:]
    )


def test_the_form_of_a_contract_is_printed_and_is_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, _ = answered(capsys, "expect", "--contract-template")
    path = tmp_path / "contract.yaml"
    path.write_text(out)
    cases = {
        case.id: case for case in playbook.load("provider-acceptance").cases if not case.repeats
    }
    made = contract.load(path, frozenset(cases))
    assert (status, len(made.criteria)) == (0, 7)
    assert all(each.size in cases[each.case].sizes.planned() for each in made.criteria)


def test_the_clauses_of_the_documentation_hold_the_same_form() -> None:
    text = (Path(__file__).parents[2] / "docs/contract-template.md").read_text()
    assert text.partition("```yaml\n")[2].partition("```")[0] == TEMPLATE


def recorded(out: Path, answers: dict[str, dict[str, str]], *, fabric: str | None = None) -> Path:
    """A run directory with what nodes answered: composed sections in the form of the script."""
    nodes = tuple(Node(name) for name in answers)
    named = undetected() if fabric is None else profiles.load(fabric)
    run = run_directory.create(out, "2026-11-21T10:00:00Z", "quick")
    book = playbook.load("quick")
    plan = run_plan(
        Cluster(nodes, nodes[0].name, "-w"),
        book,
        named,
        run_id=run.run_id,
        started="2026-11-21T10:00:00Z",
    )
    artefacts.keep(run, "plan.json", plan)
    entries = []
    for name, sections in answers.items():
        text = (
            "".join(
                f"\n@@b begin {key}\n{value}\n@@b end {key} 0\n" for key, value in sections.items()
            )
            + "\n@@b done\n"
        )
        run.write_raw(f"preflight/{name}.txt", text)
        entries.append(PreflightEntry(name, f"raw/preflight/{name}.txt", None, 0, None, 0.1))
    artefacts.keep(run, "preflight.json", PreflightArtefact("b", tuple(entries)))
    return run.path


def node_sections(
    gpu: str = "NVIDIA H100 80GB HBM3", ports: int = 8, gpus: int = 8
) -> dict[str, str]:
    query = "index, uuid, name\n" + "".join(f"{i}, GPU-{i}, {gpu}\n" for i in range(gpus))
    lines = []
    for i in range(ports):
        lines += [
            f"rdma mlx5_{i} hca_type MT4129",
            f"port mlx5_{i} 1 state 4: ACTIVE",
            f"port mlx5_{i} 1 rate 400 Gb/sec (4X NDR)",
        ]
        lines.append(f"port mlx5_{i} 1 link_layer InfiniBand")
    return {
        "gpu_query": query,
        "rdma_sysfs": "\n".join(lines) + "\n",
        "fabric_marks": "vendor=Supermicro\n",
    }


def test_a_run_describes_its_own_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = recorded(tmp_path, {f"gpu-{n}": node_sections() for n in range(4)})
    status, out, err = answered(capsys, "expect", str(run))
    assert (status, err) == (0, "")
    assert out.splitlines()[:4] == [
        "all_reduce on 4 nodes of 8 x H100, 8 x 400 Gb/s, infiniband",
        f"described by run {run.name}: 8 x H100, 8 x 400 Gb/s, infiniband, on 4 nodes",
        "",
        (
            "limit       516.7 GB/s  nothing exceeds it: min((n-1)/(g(k-1)) W, max(2(n-1)/n g/(g+1)"
            " N, N + B))"
        ),
    ]
    assert answered(capsys, "expect", str(run), "--nodes", "8")[1].startswith(
        "all_reduce on 8 nodes"
    ), "what is given wins"


def test_a_mixed_cluster_says_which_nodes_differ_and_what_would_help(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = recorded(
        tmp_path,
        {"gpu-1": node_sections(), "gpu-2": node_sections("NVIDIA A100-SXM4-80GB", 7)},
        fabric="infiniband",
    )
    status, out, err = answered(capsys, "expect", str(run))
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        "busbw: error: what the nodes say is not enough for a limit",
        (
            "busbw: seen: the nodes do not have the same GPUs: 8 x NVIDIA A100-SXM4-80GB on gpu-2;"
            " 8 x NVIDIA H100 80GB HBM3 on gpu-1; the nodes do not have the same network: 7 x 400"
            " Gb/s on gpu-2; 8 x 400 Gb/s on gpu-1"
        ),
        (
            "busbw: next: give the rest by hand, it wins over what the nodes say: --gpu H100"
            " --gpus-per-node 8 --nics 8x400"
        ),
    ]
    assert (
        answered(
            capsys, "expect", str(run), "--gpu", "A100", "--gpus-per-node", "8", "--nics", "8x200"
        )[0]
        == 0
    )


def imex_of(*addresses: str) -> str:
    lines = [f"Node #{i}   * {each} *   - READY" for i, each in enumerate(addresses)]
    return "\n".join(("Nodes:", *lines, "Domain State: UP", ""))


def test_a_run_takes_its_nvlink_domains_from_imex(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    racks = (imex_of("10.0.0.1", "10.0.0.2"), imex_of("10.0.1.1", "10.0.1.2"))
    sections = node_sections("NVIDIA GB200", ports=4, gpus=4)
    run = recorded(tmp_path, {f"tray-{n}": sections | {"imex": racks[n // 2]} for n in range(4)})
    status, out, err = answered(capsys, "expect", str(run), "--fabric", "infiniband")
    assert (status, err) == (0, "")
    assert out.splitlines()[:2] == [
        "all_reduce on 2 NVLink domains of 8 x GB200, 8 x 400 Gb/s, infiniband",
        (
            f"described by run {run.name}: 4 x GB200, 4 x 400 Gb/s, infiniband, NVLink joins 2"
            " nodes, on 4 nodes"
        ),
    ]
    alone = answered(capsys, "expect", str(run), "--fabric", "infiniband", "--nvlink-domain", "1")
    assert alone[1].splitlines()[0].startswith("all_reduce on 4 nodes of 4 x GB200")


def over_tcp(speed: str) -> dict[str, str]:
    sections = {
        "interfaces": "default ens5\n",
        "link_speed": f"link ens5 {speed} 1500\nlink ens6 -1 1500\n",
    }
    return node_sections(ports=0) | sections


def test_over_tcp_the_rate_and_mtu_of_the_interface_make_the_limit_without_anything_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = recorded(tmp_path, {f"gpu-{n}": over_tcp("100000") for n in range(2)}, fabric="tcp")
    status, out, err = answered(capsys, "expect", str(run), "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    # One interface of 100 Gb/s a node carries 12.5 GB/s; over two nodes of eight any algorithm
    # sends 8/15 of the bus bandwidth per node.
    assert found["expectation"]["limit"]["value_gb_s"] == pytest.approx(12.5 * 15 / 8)
    question = found["expectation"]["question"]
    assert (question["device_mtu"], question["nics"]["count"], question["nics"]["rate_gbit_s"]) == (
        1500,
        1,
        100.0,
    )
    assert answered(capsys, "expect", str(run), "--mtu", "9000")[0] == 0, "what is given wins"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (
            ("-1", "-1"),
            (
                "the rate of ens5 is not shown on gpu-[0-1] (a virtual machine, or no link): give"
                " it with --nics"
            ),
        ),
        (
            ("100000", "25000"),
            "the interfaces that TCP goes over differ: 1 x 100 Gb/s on gpu-0; 1 x 25 Gb/s on gpu-1",
        ),
    ],
)
def test_over_tcp_a_rate_that_is_not_given_or_differs_is_what_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, answers: tuple[str, str], told: str
) -> None:
    run = recorded(
        tmp_path, {f"gpu-{n}": over_tcp(speed) for n, speed in enumerate(answers)}, fabric="tcp"
    )
    status, out, err = answered(capsys, "expect", str(run))
    assert (status, out) == (2, "")
    assert told in err.splitlines()[1]


def test_two_sources_of_the_hardware_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = answered(capsys, "expect", "--local", "--node", "gpu-1", "--nodes", "2")
    assert (status, err.splitlines()[0]) == (
        2,
        "busbw: error: one source of the hardware at a time",
    )


def test_this_machine_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answered(
        capsys,
        "expect",
        "--local",
        "--nodes",
        "2",
        "--gpu",
        "H100",
        "--nics",
        "8x400",
        "--fabric",
        "infiniband",
    )
    assert (status, out.splitlines()[0]) == (
        0,
        "all_reduce on 2 nodes of 8 x H100, 8 x 400 Gb/s, infiniband",
    ), err
    assert out.splitlines()[1].startswith("described by node ")


PERFTEST = Path(__file__).parents[1] / "fixtures/bandwidth/ib_write_bw.txt"


def test_the_number_of_nccl_is_held_against_what_the_nics_gave_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = (*H100, "--nodes", "8", "--measured", "371", "--rdma", str(PERFTEST))
    lines = answered(capsys, *argv)[1].splitlines()
    assert [line for line in lines if line.startswith("rdma: ")] == [
        (
            "rdma: 1 of 8 NICs by ib_write_bw: 394.0 GB/s together, 99% of line rate; the other 7"
            " taken as their median"
        ),
        "rdma: NCCL busbw over measured RDMA: 94%",
    ]


def test_one_nic_far_below_the_others_is_named_before_nccl() -> None:
    found = judge.rdma_sum((392.0, 390.0, 196.0), 3, 150.0, None)
    assert found.lines == (
        "3 of 3 NICs by ib_write_bw: 122.2 GB/s together, 82% of line rate",
        "one NIC gave 196 Gb/s, the median 390: look at it before NCCL",
    )


def test_a_file_without_bandwidth_or_more_files_than_nics_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("Couldn't connect to gpu-1:18515\n")
    status, _, err = answered(capsys, *H100, "--nodes", "8", "--rdma", str(path))
    assert (status, err.splitlines()[0]) == (2, f"busbw: error: --rdma {path}: no bandwidth in it")
    many = ("--rdma", str(PERFTEST)) * 9
    assert (
        "expected 1 to 8 measurements, one per NIC, found 9"
        in answered(capsys, *H100, "--nodes", "8", *many)[2]
    )
