"""Reading `ssh -G`: tests/fixtures/transport says where the texts come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model import Node, Unreachable
from busbw.transport import Refused, ssh_config
from busbw.transport.ssh_config import (
    LocalUser,
    ResolvedHost,
    beyond_python,
    hops,
    parse,
    ssh_command,
)

RECORDED = Path(__file__).parent.parent / "fixtures" / "transport"
ROOT = LocalUser(name="root", uid=0, home="/root", host="login.site")


def recorded(name: str, destination: str) -> ResolvedHost:
    return parse((RECORDED / name).read_text(), destination=destination, local=ROOT)


def test_include_match_and_proxy_jump_arrive_and_file_names_are_expanded() -> None:
    host = recorded("cluster.txt", "gpu-007")

    assert (host.destination, host.hostname, host.port, host.user) == (
        "gpu-007",
        "gpu-007.cluster.example",
        2222,
        "hpc",
    )
    assert host.identity_files == ("/root/.ssh/hpc_key", "/srv/keys/gpu-007.cluster.example")
    assert (host.identities_only, host.identity_agent) == (True, "/root/agent.sock")
    assert (host.proxy_jump, host.proxy_command) == ("ops@bastion.example:2200,inner", None)
    assert host.host_key_alias == "gpu.keys"
    assert host.user_known_hosts == ("/root/.ssh/known_gpu.keys", "/srv/known hosts")
    assert (host.strict_host_key_checking, host.hash_known_hosts, host.connect_timeout_s) == (
        "accept-new",
        True,
        7.0,
    )
    assert host.host_key_names == ("gpu.keys",)
    assert beyond_python(host) is None


def test_the_defaults_of_openssh_are_read() -> None:
    host = recorded("defaults.txt", "10.0.0.7")

    assert (host.hostname, host.port, host.user, host.proxy_jump, host.proxy_command) == (
        "10.0.0.7",
        22,
        "root",
        None,
        None,
    )
    assert host.identity_files[:2] == ("/root/.ssh/id_rsa", "/root/.ssh/id_ecdsa")
    assert (
        host.identities_only,
        host.identity_agent,
        host.host_key_alias,
        host.connect_timeout_s,
    ) == (False, None, None, None)
    assert host.user_known_hosts == ("/root/.ssh/known_hosts", "/root/.ssh/known_hosts2")
    assert host.global_known_hosts == ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
    assert (host.strict_host_key_checking, host.hash_known_hosts) == ("ask", False)
    assert "curve25519-sha256@libssh.org" in host.key_exchanges
    assert "aes128-ctr" in host.ciphers
    assert "hmac-sha2-256" in host.macs
    assert "rsa-sha2-512" in host.host_key_algorithms
    assert host.host_key_names == ("10.0.0.7",)
    assert beyond_python(host) is None


def test_a_proxy_command_is_beyond_python_unless_the_way_is_given() -> None:
    host = recorded("proxy-command.txt", "db")

    assert (host.user_known_hosts, host.strict_host_key_checking, host.identity_agent) == (
        ("/dev/null",),
        "no",
        "none",
    )
    assert beyond_python(host) == "ProxyCommand nc -X connect %h %p"
    assert beyond_python(host, jumped=True) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("certificatefile ~/.ssh/id-cert.pub", "CertificateFile /root/.ssh/id-cert.pub"),
        ("pkcs11provider /usr/lib/token.so", "PKCS11Provider /usr/lib/token.so"),
        ("knownhostscommand /usr/bin/keys %H", "KnownHostsCommand /usr/bin/keys %H"),
        ("verifyhostkeydns true", "VerifyHostKeyDNS yes"),
        ("bindaddress 10.1.0.1", "BindAddress 10.1.0.1"),
        ("pubkeyauthentication false", "PubkeyAuthentication no"),
        ("pkcs11provider none", None),
        ("checkhostip yes", None),
    ],
)
def test_an_option_only_openssh_can_follow_is_named(line: str, message: str | None) -> None:
    host = parse(f"hostname a\nport 22\nuser root\n{line}\n", destination="a", local=ROOT)

    assert beyond_python(host) == message


def test_a_live_control_socket_of_the_user_is_left_to_openssh(tmp_path: Path) -> None:
    socket = tmp_path / "control"
    text = f"hostname a\nport 22\nuser root\ncontrolpath {socket}\n"

    assert beyond_python(parse(text, destination="a", local=ROOT)) is None
    socket.touch()
    assert (
        beyond_python(parse(text, destination="a", local=ROOT))
        == f"ControlPath {socket}: a connection of yours is open there"
    )


def test_a_port_is_part_of_the_name_under_which_a_host_is_known() -> None:
    host = parse("hostname Node1\nport 2222\nuser root\n", destination="n", local=ROOT)

    assert host.host_key_names == ("[node1]:2222", "node1")


def test_jump_hosts_are_read_in_the_order_they_are_passed() -> None:
    assert [
        (hop.user, hop.address, hop.port)
        for hop in hops("me@bastion:2200,[fe80::1]:22,ssh://inner:23/")
    ] == [
        ("me", "bastion", 2200),
        (None, "fe80::1", 22),
        (None, "inner", 23),
    ]
    with pytest.raises(Refused, match="cannot read 'a:b:c' as"):
        hops("first,a:b:c")


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=touch x", "$(reboot)", "a b", "a;b", "", "`id`", "a\nb"]
)
def test_a_hostile_host_name_never_reaches_a_command_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_config.subprocess, "run", lambda *_, **__: pytest.fail("ssh was run"))

    answer = ssh_config.resolve(
        Node("node1", address=name or None) if name else Node(""), config_file=None, timeout_s=60
    )

    assert answer == Unreachable(
        "node1" if name else "",
        f"host name {name!r} is not given to ssh",
        "correct it in the inventory: letters, digits and . _ : % - only, and no '-' at the start",
    )


def test_a_hostile_user_name_or_option_never_reaches_a_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ssh_config.subprocess, "run", lambda *_, **__: pytest.fail("ssh was run"))

    user = ssh_config.resolve(Node("n", user="-oProxyCommand=x"), config_file=None, timeout_s=60)
    option = ssh_config.resolve(
        Node("n", ssh_options=(("Port\nProxyCommand", "x"),)), config_file=None, timeout_s=60
    )

    assert isinstance(user, Unreachable)
    assert user.reason == "user name '-oProxyCommand=x' is not given to ssh"
    assert isinstance(option, Unreachable)
    assert option.reason == "ssh option 'Port\\nProxyCommand' = 'x' is not given to ssh"


def test_what_the_inventory_says_of_a_node_goes_to_ssh() -> None:
    node = Node("n", user="hpc", port=2200, identity_file="/k", ssh_options=(("ProxyJump", "b"),))

    assert ssh_command(node, "/etc/cfg") == (
        "ssh",
        "-F",
        "/etc/cfg",
        "-p",
        "2200",
        "-l",
        "hpc",
        "-i",
        "/k",
        "-o",
        "ProxyJump=b",
    )
    assert ssh_command(Node("n"), None, first=("-oBatchMode=yes",)) == ("ssh", "-oBatchMode=yes")


def test_a_machine_without_ssh_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert ssh_config.resolve(Node("n"), config_file=None, timeout_s=60) == Unreachable(
        "n",
        "the program ssh was not found on this machine",
        "install the OpenSSH client (openssh-client)",
    )


def program(directory: Path, text: str) -> None:
    (directory / "ssh").write_text(f"#!/bin/sh\n{text}\n")
    (directory / "ssh").chmod(0o755)


def test_a_slow_match_exec_ends_with_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path, "exec /bin/sleep 600")
    monkeypatch.setenv("PATH", str(tmp_path))

    answer = ssh_config.resolve(Node("n"), config_file=None, timeout_s=0.1)

    assert isinstance(answer, Unreachable)
    assert answer.reason == "ssh -G n: no answer within 0.1 s"
    assert "Match exec" in answer.next_step


def test_what_ssh_says_of_a_broken_configuration_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(
        tmp_path,
        "echo '/home/me/.ssh/config: line 3: Bad configuration option: prot' >&2; exit 255",
    )
    monkeypatch.setenv("PATH", str(tmp_path))

    answer = ssh_config.resolve(Node("n"), config_file=None, timeout_s=60)

    assert answer == Unreachable(
        "n",
        "ssh -G n: /home/me/.ssh/config: line 3: Bad configuration option: prot",
        "correct the ssh configuration that the message names",
    )
