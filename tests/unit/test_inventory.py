"""From options and files to the nodes of a run: every way of naming them but Ansible's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.errors import InventoryError
from busbw.inventory import resolve
from busbw.model import Cluster, Node

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file into an empty working directory and gives its name."""
    monkeypatch.chdir(tmp_path)

    def put(text: str | bytes, name: str = "nodes") -> str:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return put


def complaint(*arguments: str | None, environ: dict[str, str] | None = None) -> tuple[str, ...]:
    inventory, nodes, exclude = (*arguments, None, None)[:3]
    with pytest.raises(InventoryError) as caught:
        resolve(inventory, nodes, exclude, environ or {})
    assert caught.value.exit_status == 2
    return caught.value.lines()


def test_links_in_the_place_of_invented_rails_carry_the_data() -> None:
    invented = Node("a", rails=("mlx5_0",), data_links=("eth0",))
    assert invented.data_interfaces == ("eth0",)
    assert Node("a", rails=("mlx5_0",)).data_interfaces == ("mlx5_0",)


def test_a_host_list_alone_is_a_cluster() -> None:
    assert resolve(None, "gpu-[002-003],gpu-001", None, {"SLURM_JOB_NODELIST": "other"}) == Cluster(
        nodes=(Node("gpu-002"), Node("gpu-003"), Node("gpu-001")),
        head="gpu-002",
        source="-w gpu-[001-003]",
    )


def test_inside_a_slurm_allocation_its_nodes_are_used_and_that_is_reported() -> None:
    assert resolve(
        None, None, None, {"SLURM_JOB_NODELIST": "gpu[1-2]", "SLURM_JOB_ID": "881234"}
    ) == Cluster(
        nodes=(Node("gpu1"), Node("gpu2")),
        head="gpu1",
        source="SLURM_JOB_NODELIST=gpu[1-2] (Slurm job 881234)",
        notes=("no nodes were given: the 2 nodes of this Slurm allocation are used",),
    )


def test_with_nothing_given_the_ways_of_naming_nodes_are_reported() -> None:
    assert complaint(None) == (
        "error: no nodes were given",
        "seen: no -w, no -i, no busbw.yaml in this folder, and SLURM_JOB_NODELIST is not set",
        (
            "next: name them: -w 'gpu-[001-016]', -i FILE (own YAML, Ansible, Open MPI hostfile),"
            " or -i lab after `busbw lab up`"
        ),
    )


def test_nodes_are_left_out_and_the_first_of_the_rest_is_the_head() -> None:
    assert resolve(None, "n[1-4]", "n[1,3]", {}) == Cluster(
        nodes=(Node("n2"), Node("n4")), head="n2", source="-w n[1-4], -x n[1,3]"
    )


def test_leaving_out_a_host_that_is_not_there_is_an_error() -> None:
    assert complaint(None, "gpu-[001-016]", "gpu-[016-018]") == (
        "error: -x names unknown hosts gpu-[017-018]; did you mean 'gpu-016'?",
        "seen: -w gpu-[001-016] has 16: gpu-[001-016]",
        "next: name hosts that are in it, or leave -x out",
    )


def test_leaving_out_every_node_is_an_error() -> None:
    assert complaint(None, "n[1-2]", "n[1-2]")[0] == "error: no node is left"


LIST_HINT = "next: write what it lists to a file: ansible-inventory -i nodes --list > hosts.json"

OWN = """\
nodes:
  - gpu-[001-002]
  - name: gpu-003
    address: 10.0.0.3
    user: hpc
    port: 2222
    slots: 4
    rails: [mlx5_0]
    labels: {leaf: sw2}
    ssh_options: {ProxyJump: bastion}
defaults: {gpus: 8, rails: [mlx5_0, mlx5_3], labels: {rack: 07}, identity_file: ~/.ssh/lab}
head: gpu-002
fabric: infiniband
launcher: mpirun
ssh_config: ./ssh_config
"""


def test_a_label_of_a_node_wins_over_that_of_the_defaults(write: Write) -> None:
    text = "nodes: [{name: n1, labels: {leaf: a}}]\ndefaults: {labels: {leaf: b, rack: 07}}\n"
    (node,) = resolve(write(text), None, None, {}).nodes
    assert node.labels == (("leaf", "a"), ("rack", "07"))


def test_the_own_inventory_says_all_there_is_to_say(write: Write) -> None:
    write("Host *\n", "ssh_config")
    plain = {
        "identity_file": "~/.ssh/lab",
        "gpus": 8,
        "rails": ("mlx5_0", "mlx5_3"),
        "labels": (("rack", "07"),),
    }
    assert resolve(write(OWN), None, None, {}) == Cluster(
        nodes=(
            Node("gpu-001", **plain),  # type: ignore[arg-type]  # one dictionary for several kinds of values
            Node("gpu-002", **plain),  # type: ignore[arg-type]  # the same
            Node(
                name="gpu-003",
                address="10.0.0.3",
                user="hpc",
                port=2222,
                identity_file="~/.ssh/lab",
                ssh_options=(("ProxyJump", "bastion"),),
                gpus=8,
                slots=4,
                rails=("mlx5_0",),
                labels=(("leaf", "sw2"), ("rack", "07")),
            ),
        ),
        head="gpu-002",
        source="nodes (busbw inventory)",
        fabric="infiniband",
        launcher="mpirun",
        ssh_config="ssh_config",
    )


def test_an_ssh_config_that_is_not_there_is_reported_at_its_place(write: Write) -> None:
    assert (
        complaint(write("nodes: [a]\nssh_config: ~/none/such\n"))[0]
        == f"error: nodes:2:13: no file {Path.home()}/none/such"
    )


def test_a_host_list_picks_from_an_inventory_and_a_lost_head_is_reported(write: Write) -> None:
    write("Host *\n", "ssh_config")
    cluster = resolve(write(OWN), "gpu-[003,001]", None, {})
    assert (tuple(node.name for node in cluster.nodes), cluster.head, cluster.source) == (
        ("gpu-001", "gpu-003"),
        "gpu-001",
        "nodes (busbw inventory), -w gpu-[003,001]",
    )
    assert cluster.notes == (
        "the head node gpu-002 is not among the nodes of this run; gpu-001 starts the launcher",
    )


def test_a_host_list_that_names_a_stranger_is_refused(write: Write) -> None:
    write("Host *\n", "ssh_config")
    assert (
        complaint(write(OWN), "gpu-[001-004]")[0]
        == "error: -w names unknown host gpu-004; did you mean 'gpu-003'?"
    )


def test_one_host_list_may_stand_for_all_nodes(write: Write) -> None:
    cluster = resolve(write("nodes: gpu-[001-003]\n"), None, None, {})
    assert tuple(node.name for node in cluster.nodes) == ("gpu-001", "gpu-002", "gpu-003")


def test_every_mistake_in_the_own_inventory_is_reported_at_once(write: Write) -> None:
    text = """\
nodes:
  - gpu-[001-004]
  - name: gpu-[003-006]
    address: 10.0.0.3
    port: 99999
  - {name: "gpu-[7-", gpus: 0}
  - {name: ok, rails: ["mlx5 0"], user: "a;b", address: "$(x)"}
head: gpu-1
launcher: pbsdsh
"""
    assert complaint(write(text)) == (
        (
            "error: nodes:3:11: 'gpu-[003-006]' repeats 2 hosts of line 2: gpu-[003-004]\n     "
            " nodes:4:5: one address for 4 nodes (gpu-[003-006])\n      nodes:5:11: a port is 1 to"
            " 65535, not 99999\n      nodes:6:12: host list 'gpu-[7-': ']' is missing\n  "
            "    nodes:6:29: expected 1 to 1024, found 0\n      nodes:7:24: 'mlx5 0' is not the"
            " name of a network device\n      nodes:7:41: 'a;b' is not a login name\n     "
            " nodes:7:57: illegal address '$(x)': letters, digits, dot, dash and underscore only,"
            " none of dot and dash in front\n      nodes:8:7: unknown node 'gpu-1'; did you mean"
            " 'gpu-001'?\n      nodes:9:11: unknown launcher 'pbsdsh'; known: hydra, mpijob,"
            " mpirun, slurm-mpirun, srun"
        ),
        "next: 10 errors: correct the text and start again; nothing was contacted",
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("node: [a]\n", "nodes:1:1: unknown key 'node'; did you mean 'nodes'?"),
        ("nodes: []\n", "nodes:1:8: names no node"),
        ("nodes:\n", "nodes:1:7: expected a list, found nothing"),
        ("- a\n", "nodes.yaml:1:1: a busbw inventory starts with nodes:, one of Ansible with all:"),
        ("", "nodes: empty: no node is named"),
        ("# only a comment\n", "nodes: empty: no node is named"),
    ],
)
def test_an_inventory_without_nodes_is_refused(write: Write, text: str, what: str) -> None:
    assert what in complaint(write(text, "nodes.yaml" if text.startswith("-") else "nodes"))[0]


def test_a_password_in_an_inventory_is_an_unknown_key(write: Write) -> None:
    assert "unknown key 'password'" in complaint(write("nodes: [a]\ndefaults: {password: x}\n"))[0]


def test_a_hostfile_gives_slots_and_users(write: Write) -> None:
    text = (
        "# machines\ngpu-001 slots=8 max_slots=8\n\nhpc@gpu-002   slots = 4 # four\ngpu-003"
        " port=2222\n"
    )
    assert resolve(write(text), None, None, {}) == Cluster(
        nodes=(
            Node("gpu-001", slots=8),
            Node("gpu-002", user="hpc", slots=4),
            Node("gpu-003", port=2222),
        ),
        head="gpu-001",
        source="nodes (Open MPI hostfile)",
    )


def test_a_host_repeated_in_a_hostfile_has_the_slots_of_all_its_lines(write: Write) -> None:
    cluster = resolve(write("a\na\nb slots=2\n"), None, None, {})
    assert cluster.nodes == (Node("a", slots=2), Node("b", slots=2))
    assert cluster.notes == ("nodes: 'a' is on 2 lines; its slots were added up",)


def test_a_plain_list_of_hosts_states_no_slots(write: Write) -> None:
    assert resolve(write("gpu-[001-002]\r\nlogin\r\n"), None, None, {}) == Cluster(
        nodes=(Node("gpu-001"), Node("gpu-002"), Node("login")),
        head="gpu-001",
        source="nodes (list of hosts)",
    )


def test_every_mistake_in_a_hostfile_is_reported_at_once(write: Write) -> None:
    text = "a slts=8\nb:8\n$(reboot) slots=8\nc slots=x\nd slots\ne slots=0\n"
    assert complaint(write(text)) == (
        (
            "error: nodes:1:3: unknown key 'slts'; did you mean 'slots'?\n      nodes:2:1: 'b:8': a"
            " hostfile says b slots=8\n      nodes:3:1: illegal node name '$(reboot)': letters,"
            " digits, dot, dash and underscore only, none of dot and dash in front\n     "
            " nodes:4:3: slots is a number from 1, not 'x'\n      nodes:5:3: expected slots=N,"
            " found 'slots'\n      nodes:6:3: slots is a number from 1, not '0'"
        ),
        "next: 6 errors: correct the text and start again; nothing was contacted",
    )


@pytest.mark.parametrize(
    ("content", "what", "next_step"),
    [
        (b"\xff\xfe\x00", "not a text in UTF-8", "next: give an inventory file to -i"),
        (
            b"#!/bin/sh\necho",
            "a script, and busbw runs none",
            LIST_HINT,
        ),
        (
            b"$ANSIBLE_VAULT;1.1;AES256\n3132\n",
            "encrypted with Ansible Vault, and busbw reads no secrets",
            "next: give it in plain text",
        ),
        (
            b"plugin: aws_ec2\n",
            "configures a plugin of Ansible, and busbw runs none",
            LIST_HINT,
        ),
    ],
)
def test_a_file_that_cannot_be_an_inventory_says_what_to_give_instead(
    write: Write, content: bytes, what: str, next_step: str
) -> None:
    lines = complaint(write(content))
    assert (lines[0], lines[-1]) == (f"error: nodes: {what}", next_step)


def test_a_file_that_is_not_there_is_reported_and_w_is_offered() -> None:
    assert complaint("/nowhere/gpu-[001-016]") == (
        "error: /nowhere/gpu-[001-016]: No such file or directory",
        "next: give the path of an inventory file to -i; a host list goes to -w",
    )


def test_a_byte_order_mark_is_no_part_of_the_first_name(write: Write) -> None:
    assert resolve(write("\ufeffa slots=1\n"), None, None, {}).nodes == (Node("a", slots=1),)


def test_a_thousand_nodes_are_read_from_every_kind_of_file(write: Write) -> None:
    for text in (
        "nodes: n[0001-1000]\n",
        "n[0001-1000]\n",
        "[gpu]\nn[0001:1000]\n",
        "all: {hosts: {'n[0001:1000]': }}\n",
    ):
        cluster = resolve(write(text), None, None, {})
        assert (len(cluster.nodes), cluster.nodes[0].name, cluster.nodes[-1].name) == (
            1000,
            "n0001",
            "n1000",
        )


@pytest.mark.parametrize(
    ("text", "what", "step"),
    [
        (
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu* up infinite 4 idle gpu-[001-004]\n",
            "what sinfo prints",
            "sinfo -h -p PARTITION -o %N",
        ),
        (
            "NAME    STATUS   ROLES    AGE   VERSION\ngpu-1   Ready    <none>   10d   v1.30\n",
            "what kubectl prints",
            "kubectl get nodes -o jsonpath=",
        ),
        ("# mine\nHost gpu-1 gpu-2\n  User root\n", "an ssh config", "ssh_config: FILE"),
    ],
)
def test_a_listing_that_is_no_list_of_hosts_is_named_once(
    tmp_path: Path, text: str, what: str, step: str
) -> None:
    path = tmp_path / "nodes"
    path.write_text(text)
    with pytest.raises(InventoryError) as caught:
        resolve(str(path), None, None, {})
    assert caught.value.what == f"{path} is {what}, and no list of hosts"
    assert step in caught.value.next_step


@pytest.mark.parametrize(
    ("labels", "specification", "told"),
    [
        pytest.param(
            "{leaf: s1, uplinks: four}",
            "{nic_rate: 400}",
            'such as "4 x 400G per rail" or "16 x 400G", found \'four\'',
            id="no number",
        ),
        pytest.param(
            '{leaf: s1, uplinks: "4 x 400G per rail"}',
            "{gpus: 8}",
            "what a node sends is not stated; add specification: {nic_rate: …}",
            id="nobody says what a node sends",
        ),
        pytest.param(
            '{leaf: s1, uplinks: "16 x 400G"}',
            "{nic_rate: 400}",
            "add specification: {nics: …}",
            id="nor by how many NICs",
        ),
        pytest.param(
            '{leaf: s1, uplinks: "1 x 400G per rail", oversubscription: "1:1"}',
            "{nic_rate: 400}",
            "leaf s1: oversubscription 1:1, but its nodes can send 2 times what its uplinks carry",
            id="two labels that contradict each other",
        ),
    ],
)
def test_uplinks_that_state_nothing_are_an_error(
    write: Write, labels: str, specification: str, told: str
) -> None:
    text = (
        f"nodes: [gpu-1, gpu-2]\ndefaults: {{labels: {labels}}}\nspecification: {specification}\n"
    )
    assert told in "\n".join(complaint(write(text, "cluster.yaml")))


def test_uplinks_and_what_follows_from_them_may_both_be_stated(write: Write) -> None:
    text = (
        "nodes: [gpu-1, gpu-2]\nspecification: {nic_rate: 400}\ndefaults:\n  labels: {leaf: s1, "
        'uplinks: "1 x 400G per rail", oversubscription: "4:1"}\n'
    )
    resolve(write(text, "cluster.yaml"), None, None, {})
