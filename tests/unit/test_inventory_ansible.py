"""Ansible inventories. What each host comes out with was compared with `ansible-inventory --list`
of ansible-core 2.19.14."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import InventoryError
from busbw.inventory import fold, resolve
from busbw.inventory.ansible_ini import expand_ranges
from busbw.model import Cluster, Node

INI = """\
bare ansible_host=1.1.1.1
[gpu]
gpu[01:04] ansible_port=22
gpu[a:c:2]x
gpu05:2022 busbw_rails="mlx5_0, mlx5_1" # c
[rack1]
gpu01
gpu02 ansible_user=inline
[rack2]
gpu03
[zone:children]
rack1
rack2
[zone:vars]
ansible_user=zone
busbw_gpus=4
[rack2:vars]
ansible_user = "racktwo"
[all:vars]
ansible_user=all
busbw_gpus=8
ansible_ssh_private_key_file='~/k'
"""

YAML = """\
all:
  vars: {ansible_user: all, busbw_gpus: 8}
  hosts: {bare: {ansible_host: 1.1.1.1}}
  children:
    gpu:
      hosts:
        gpu[01:02]: {ansible_port: 22, busbw_rails: [mlx5_0, mlx5_1], busbw_label_leaf: sw1}
        gpu03:
    zone:
      vars: {ansible_user: zone}
      children:
        rack1: {hosts: {gpu01: , gpu02: {ansible_user: inline}}}
        rack2: {hosts: {gpu03: }, vars: {ansible_user: 0123}}
"""

LISTED = """\
{"_meta": {"hostvars": {"gpu01": {"ansible_user": "hpc", "ansible_port": 2222}, "gpu02": {"busbw_gpus": 8}}},
 "all": {"children": ["ungrouped", "gpu"]},
 "gpu": {"hosts": ["gpu01", "gpu02"]}}
"""


def put(folder: Path, **files: str) -> str:
    """Writes files (`group_vars__all_yml` is group_vars/all.yml) and gives the path of the
    first."""
    paths = [
        folder
        / name.replace("__", "/")
        .replace("_yml", ".yml")
        .replace("_ini", ".ini")
        .replace("_json", ".json")
        for name in files
    ]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(paths[0])


def problems_of(path: str) -> list[str]:
    with pytest.raises(InventoryError) as caught:
        resolve(path, None, None, {})
    return [
        line.strip().removeprefix("error: ").replace(f"{Path(path).parent}/", "")
        for line in caught.value.lines()[0].splitlines()
    ]


def test_an_ini_inventory_gives_the_hosts_with_the_variables_that_win(tmp_path: Path) -> None:
    path = put(tmp_path, hosts_ini=INI)
    key = "~/k"
    zone = {"identity_file": key, "gpus": 4}
    assert resolve(path, None, None, {}) == Cluster(
        nodes=(
            Node("bare", address="1.1.1.1", user="all", identity_file=key, gpus=8),
            Node("gpu01", user="zone", port=22, labels=(("groups", "gpu,zone,rack1"),), **zone),  # type: ignore[arg-type]  # mixed values
            Node("gpu02", user="inline", port=22, labels=(("groups", "gpu,zone,rack1"),), **zone),  # type: ignore[arg-type]  # mixed values
            Node("gpu03", user="racktwo", port=22, labels=(("groups", "gpu,zone,rack2"),), **zone),  # type: ignore[arg-type]  # mixed values
            Node(
                "gpu04", user="all", port=22, identity_file=key, gpus=8, labels=(("groups", "gpu"),)
            ),
            Node("gpuax", user="all", identity_file=key, gpus=8, labels=(("groups", "gpu"),)),
            Node("gpucx", user="all", identity_file=key, gpus=8, labels=(("groups", "gpu"),)),
            Node(
                "gpu05",
                user="all",
                port=2022,
                identity_file=key,
                gpus=8,
                rails=("mlx5_0", "mlx5_1"),
                labels=(("groups", "gpu"),),
            ),
        ),
        head="bare",
        source=f"{path} (Ansible INI)",
    )


def test_a_yaml_inventory_gives_the_hosts_with_the_variables_that_win(tmp_path: Path) -> None:
    path = put(tmp_path, hosts_yml=YAML)
    rails = ("mlx5_0", "mlx5_1")
    assert resolve(path, None, None, {}) == Cluster(
        nodes=(
            Node("bare", address="1.1.1.1", user="all", gpus=8),
            Node(
                "gpu01",
                user="zone",
                port=22,
                gpus=8,
                rails=rails,
                labels=(("groups", "gpu,zone,rack1"), ("leaf", "sw1")),
            ),
            Node(
                "gpu02",
                user="inline",
                port=22,
                gpus=8,
                rails=rails,
                labels=(("groups", "gpu,zone,rack1"), ("leaf", "sw1")),
            ),
            Node("gpu03", user="0123", gpus=8, labels=(("groups", "gpu,zone,rack2"),)),
        ),
        head="bare",
        source=f"{path} (Ansible YAML)",
    )


def test_the_list_of_a_dynamic_inventory_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, hosts_json=LISTED)
    assert resolve(path, None, None, {}) == Cluster(
        nodes=(
            Node("gpu01", user="hpc", port=2222, labels=(("groups", "gpu"),)),
            Node("gpu02", gpus=8, labels=(("groups", "gpu"),)),
        ),
        head="gpu01",
        source=f"{path} (ansible-inventory --list)",
    )


def test_of_a_groups_files_the_first_name_is_read_and_no_hidden_file_or_backup(
    tmp_path: Path,
) -> None:
    path = put(
        tmp_path,
        hosts_ini="a\n",
        group_vars__all__set_yml="ansible_user: folder\n",
        group_vars__all__deep__set_yml="ansible_port: 23\n",
        group_vars__all_yml="ansible_user: file\nbusbw_gpus: 4\n",
        host_vars__a_yml="busbw_slots: 2\n",
        host_vars__a_json='{"busbw_slots": 3}',
    )
    folder = tmp_path / "group_vars/all"
    for name in (".hidden.yml", "backup~", "notes.txt", "old.d/set.yml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("ansible_user: wrong\n")
    (node,) = resolve(path, None, None, {}).nodes
    assert (node.user, node.port, node.gpus, node.slots) == ("folder", 23, None, 2)


def test_a_folder_of_a_group_may_have_an_ending(tmp_path: Path) -> None:
    path = put(tmp_path, hosts_ini="a\n", group_vars__all_yml__set_yml="busbw_gpus: 4\n")
    (node,) = resolve(path, None, None, {}).nodes
    assert node.gpus == 4


def test_group_vars_and_host_vars_beside_the_file_win_in_ansibles_order(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        hosts_ini=INI,
        group_vars__all_yml="ansible_user: from_all_file\n",
        group_vars__gpu__a_yml="busbw_gpus: 6\n",
        group_vars__gpu__b_yml="busbw_gpus: 7\nansible_port: 23\n",
        group_vars__rack1="busbw_slots: 3\n",
        host_vars__gpu02_yml="ansible_user: hostfile\n",
    )
    read = {
        node.name: (node.user, node.port, node.gpus, node.slots)
        for node in resolve(path, None, None, {}).nodes
    }
    assert read == {
        "bare": ("from_all_file", None, 8, None),
        "gpu01": ("from_all_file", 22, 7, 3),
        "gpu02": ("hostfile", 22, 7, 3),
        "gpu03": ("from_all_file", 22, 7, None),
        "gpu04": ("from_all_file", 22, 7, None),
        "gpuax": ("from_all_file", 23, 7, None),
        "gpucx": ("from_all_file", 23, 7, None),
        "gpu05": ("from_all_file", 2022, 7, None),
    }


def test_ssh_arguments_become_options_of_the_node(tmp_path: Path) -> None:
    arguments = '-o ProxyJump=bastion -o \\"ServerAliveInterval 5\\" -i ~/.ssh/x -l hpc -J j2'
    path = put(tmp_path, hosts_ini=f'[gpu]\na ansible_ssh_common_args="{arguments}"\n')
    assert resolve(path, None, None, {}).nodes == (
        Node(
            "a",
            user="hpc",
            identity_file="~/.ssh/x",
            ssh_options=(("ProxyJump", "j2"), ("ServerAliveInterval", "5")),
            labels=(("groups", "gpu"),),
        ),
    )


ILLEGAL = "letters, digits, dot, dash and underscore only, none of dot and dash in front"


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        (
            "hosts_ini",
            "a ansible_ssh_common_args='-F /etc/x'\n",
            ["hosts.ini:1:3: ssh argument '-F' is not read; put it into ssh_config"],
        ),
        (
            "hosts_ini",
            "# hosts of the provider\n[gpu]\ngpu[01:32] ansible_user=hpc\n[storage:vars]\nx=1\n[rack]\n"
            "gpu14 ansible_hosts=10.0.0.14\ngpu15 novalue\n[gpu]\ngpu[29:36]\ngpu-[40-44]\n[all:kids]\n"
            "[cluster:children]\ngpuu\n",
            [
                "hosts.ini:4:1: unknown group 'storage'; known: all, cluster, gpu, rack, ungrouped",
                "hosts.ini:7:7: unknown key 'ansible_hosts'; did you mean 'ansible_host'?",
                "hosts.ini:8:7: expected key=value, found 'novalue'",
                "hosts.ini:10: 'gpu[29:36]' repeats 4 hosts of line 3: gpu[29-32]",
                "hosts.ini:11:1: host pattern 'gpu-[40-44]': Ansible's range sign is ':'",
                "hosts.ini:12:1: unknown section 'kids'; known: children, vars",
                "hosts.ini:14:1: unknown group 'gpuu'; did you mean 'gpu'?",
            ],
        ),
        (
            "hosts_ini",
            "[a]\ngpu1 ansible_host=10.0.0.1\n[b]\ngpu1 ansible_host=10.0.0.2\n",
            ["hosts.ini:4:6: ansible_host of 'gpu1' is '10.0.0.2' here and '10.0.0.1' at line 2"],
        ),
        (
            "hosts_ini",
            "[a:children]\nb\n[b:children]\na\n[c]\nn1\n",
            ["hosts.ini: groups contain each other: a, b"],
        ),
        (
            "hosts_ini",
            "[gpu]\n-oProxyCommand=reboot\n../x\n",
            [
                f"hosts.ini:2: illegal node name '-oProxyCommand=reboot': {ILLEGAL}",
                f"hosts.ini:3: illegal node name '../x': {ILLEGAL}",
            ],
        ),
        (
            "hosts_yml",
            """\
all:
  children:
    gpu:
      hosts:
        gpu[01:03]:
        gpu02:
        gpu04: {ansible_host: '{{ x }}', ansible_port: ssh, busbw_gpu: 8}
      host: {}
    b:
      hosts: [a]
""",
            [
                "hosts.yml:6:9: 'gpu02' repeats 1 host of line 5: gpu02",
                "hosts.yml:7:31: ansible_host is a template, and busbw does not run Ansible: give it"
                " the output of `ansible-inventory --list`",
                "hosts.yml:7:56: expected a number from 1 to 65535, found 'ssh'",
                "hosts.yml:7:72: unknown key 'busbw_gpu'; did you mean 'busbw_gpus'?",
                "hosts.yml:8:7: unknown key 'host'; did you mean 'hosts'?",
                "hosts.yml:10:14: expected a mapping under 'hosts'; write 'b' as a mapping with a"
                " colon after each name",
            ],
        ),
    ],
)
def test_every_mistake_of_an_inventory_is_reported_at_once(
    name: str, text: str, problems: list[str], tmp_path: Path
) -> None:
    assert problems_of(put(tmp_path, **{name: text})) == problems


def test_a_host_may_be_in_several_groups(tmp_path: Path) -> None:
    path = put(tmp_path, hosts_ini="[gpu]\ngpu[1:4]\n[rack1]\ngpu[1:2]\n")
    assert fold(node.name for node in resolve(path, None, None, {}).nodes) == "gpu[1-4]"


def test_a_vaulted_value_that_is_needed_is_refused_and_one_that_is_not_is_left(
    tmp_path: Path,
) -> None:
    text = (
        "all:\n  hosts:\n    a:\n      ansible_user: !vault |\n        $ANSIBLE_VAULT;1.1\n     "
        " db_secret: !vault |\n        $ANSIBLE_VAULT;1.1\n"
    )
    assert problems_of(put(tmp_path, hosts_yml=text)) == [
        "hosts.yml:4:21: ansible_user is encrypted with Ansible Vault, and busbw reads no secrets: "
        "put it into ssh_config, or take it out of the vault"
    ]
    assert resolve(
        put(tmp_path, hosts_yml=text.replace("ansible_user: !vault", "other: !vault")),
        None,
        None,
        {},
    ).nodes == (Node("a"),)


def test_a_vaulted_file_of_variables_is_reported_and_passed_over(tmp_path: Path) -> None:
    path = put(tmp_path, hosts_ini="a\n", group_vars__all_yml="$ANSIBLE_VAULT;1.1;AES256\n3132\n")
    assert resolve(path, None, None, {}).notes == (
        (
            f"{tmp_path}/group_vars/all.yml: encrypted with Ansible Vault, not read; what ssh needs"
            " of it belongs in ssh_config"
        ),
    )


def test_a_broken_file_of_variables_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, hosts_ini="a\n", group_vars__all_yml="x: [1\n")
    assert problems_of(path)[0].startswith("group_vars/all.yml:2:1: not YAML")


def test_a_password_is_never_read_and_that_is_reported(tmp_path: Path) -> None:
    cluster = resolve(put(tmp_path, hosts_ini="a ansible_password=hunter2\n"), None, None, {})
    assert cluster.notes == (
        f"{tmp_path}/hosts.ini: ansible_password is not read; log in with a key or the agent",
    )
    assert "hunter2" not in repr(cluster)


def test_the_machine_ansible_runs_on_is_no_node(tmp_path: Path) -> None:
    cluster = resolve(
        put(tmp_path, hosts_ini="localhost ansible_connection=local\ngpu1\n"), None, None, {}
    )
    assert (cluster.nodes, cluster.notes) == (
        (Node("gpu1"),),
        ("localhost is left out: ansible_connection=local",),
    )


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu[8:11]", ("gpu8", "gpu9", "gpu10", "gpu11")),
        ("gpu[08:10]", ("gpu08", "gpu09", "gpu10")),
        ("[a:c]x[1:2]", ("ax1", "ax2", "bx1", "bx2", "cx1", "cx2")),
        ("n[0:10:5]", ("n0", "n5", "n10")),
        ("plain", ("plain",)),
    ],
)
def test_ranges_are_ansibles(pattern: str, names: tuple[str, ...]) -> None:
    assert expand_ranges(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("n[3:1]", "host pattern 'n[3:1]': the range runs backwards"),
        ("n[08:100]", "host pattern 'n[08:100]': both ends must have the same number of digits"),
        ("n[a:3]", "host pattern 'n[a:3]': expected a range such as [01:32] or [a:f]"),
        ("n[c:a]", "host pattern 'n[c:a]': expected a range such as [01:32] or [a:f]"),
        ("n[1:9:0]", "host pattern 'n[1:9:0]': a step of 0"),
        ("n[1:99999999]", "host pattern 'n[1:99999999]' has more than 100000 names"),
        ("n[1:999]m[1:999]", "host pattern 'n[1:999]m[1:999]' has more than 100000 names"),
        ("n[1-3]", "host pattern 'n[1-3]': Ansible's range sign is ':'"),
        ("n[", "host pattern 'n[': expected a range such as [01:32] or [a:f]"),
    ],
)
def test_a_range_that_is_none_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        expand_ranges(pattern)
    assert str(caught.value) == why
