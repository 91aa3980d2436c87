"""known_hosts by OpenSSH's rules. The keys, the fingerprint and the hashed line were made with
ssh-keygen of OpenSSH 9.2p1."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from busbw.transport import Beyond, Refused, known_hosts
from busbw.transport.host_keys import HostKeys
from busbw.transport.known_hosts import (
    HostKeyAnswer,
    KnownHosts,
    Standing,
    fingerprint,
    matches,
    parse,
)
from busbw.transport.ssh_config import ResolvedHost

ED = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHttirFst1Dp22YFIkRmVfRs3OQ7iwFKnqe0odlEEwzK"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJgX/vvRtMcDD8d7bIMourgq2M95CHioNbCfHzp9oFNw"
ECDSA = (
    "ecdsa-sha2-nistp256"
    " AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGPmjKVzaKrB4Bkug0vT5kN7kZE0y8XYEO7AGqERF+fW7J1YMCzX"
    "Ji+B64tspWXcJ8khH/LHz64skItTkmRuca0="
)
ED_PRINT = "SHA256:evi7iWQY7jCjmV8YQW2oksraFiTh0CJI73AJkf+pGGg"
HASHED = "|1|dYTZwOHV8nRJ6LZPbDbQKJF+2dE=|u/IamdEifHL3FaUJLIqVtMog2eI="
"""`[node1.example]:2222`, hashed by `ssh-keygen -H`."""


def key(text: str) -> bytes:
    return base64.b64decode(text.split()[1])


def judge(text: str, offered: str, *names: str) -> tuple[Standing, int | None]:
    answer = KnownHosts(parse(text, "kh")).judge(names or ("node1",), key(offered))
    return answer.standing, answer.line.line_no if answer.line else None


def test_the_fingerprint_is_the_one_openssh_prints() -> None:
    assert fingerprint(key(ED)) == ED_PRINT


@pytest.mark.parametrize(
    ("hosts", "name", "speaks_of"),
    [
        ("node1,10.0.0.1", "10.0.0.1", True),
        ("NODE1", "node1", True),
        ("node1", "node10", False),
        ("node?", "node1", True),
        ("*.site", "a.b.site", True),
        ("*,!node1", "node1", False),
        ("!node1,*", "node2", True),
        ("[node1]:2222", "[node1]:2222", True),
        ("[node1]:2222", "node1", False),
        ("[*]:2222", "[node9]:2222", True),
        (HASHED, "[node1.example]:2222", True),
        (HASHED, "node1.example", False),
        ("|1|%%%|x", "node1", False),
        ("|1|", "node1", False),
    ],
)
def test_which_names_a_line_speaks_of(hosts: str, name: str, speaks_of: bool) -> None:
    assert matches(hosts, name) is speaks_of
    line = parse(f"{hosts} {ED}\n", "kh")
    assert KnownHosts(line).lines(name) == (line if speaks_of else ())


@pytest.mark.parametrize(
    ("text", "offered", "standing"),
    [
        (f"node1 {ED}\n", ED, (Standing.KNOWN, 1)),
        (f"node2 {ED}\n", ED, (Standing.UNKNOWN, None)),
        ("", ED, (Standing.UNKNOWN, None)),
        (f"# note\n\nnode1 {OTHER}\nnode1 {ED}\n", ED, (Standing.KNOWN, 4)),
        (f"node1 {OTHER}\n", ED, (Standing.CHANGED, 1)),
        (f"node1 {ECDSA}\n", ED, (Standing.CHANGED, 1)),
        (f"node1 {ED}\n@revoked * {ED}\n", ED, (Standing.REVOKED, 2)),
        (f"@revoked * {OTHER}\nnode1 {ED}\n", ED, (Standing.KNOWN, 2)),
        (f"@cert-authority * {ED}\n", ED, (Standing.UNKNOWN, None)),
        (
            "node1 ssh-ed25519 not-base64!\nnode1\nnode1 ssh-rsa " + ED.split()[1] + "\n",
            ED,
            (Standing.UNKNOWN, None),
        ),
        (f"node1 {ED} a comment with words\n", ED, (Standing.KNOWN, 1)),
        (f"node1\t{ED}\r\n", ED, (Standing.KNOWN, 1)),
    ],
)
def test_the_standing_of_a_key(
    text: str, offered: str, standing: tuple[Standing, int | None]
) -> None:
    assert judge(text, offered) == standing


def test_a_host_on_another_port_is_known_by_its_plain_name_with_the_same_key_only() -> None:
    names = ("[node1]:2222", "node1")

    assert judge(f"node1 {ED}\n", ED, *names) == (Standing.KNOWN, 1)
    assert judge(f"node1 {OTHER}\n", ED, *names) == (Standing.UNKNOWN, None)
    assert judge(f"node1 {ED}\n[node1]:2222 {OTHER}\n", ED, *names) == (Standing.CHANGED, 2)
    assert judge(f"[node1]:2222 {ED}\n@revoked node1 {ED}\n", ED, *names) == (Standing.REVOKED, 2)


def test_the_types_a_host_is_known_by_come_in_file_order() -> None:
    hosts = KnownHosts(
        parse(f"node1 {ECDSA}\nnode2 {OTHER}\n@cert-authority node1 {OTHER}\nnode1 {ED}\n", "kh")
    )

    assert hosts.key_types(("node1",)) == ("ecdsa-sha2-nistp256", "ssh-ed25519")


def test_several_files_count_and_a_missing_one_is_as_good_as_empty(tmp_path: Path) -> None:
    (tmp_path / "user").write_text(f"node1 {OTHER}\n")
    (tmp_path / "site").write_text(f"node1 {ED}\n")

    hosts = known_hosts.load([str(tmp_path / name) for name in ("user", "absent", "site")])

    line = hosts.lines("node1")[1]
    assert (line.place, line.key) == (f"{tmp_path}/site:1", key(ED))
    assert hosts.judge(("node1",), key(ED)) == HostKeyAnswer(Standing.KNOWN, line)


@pytest.mark.parametrize("hashed", [False, True])
def test_a_line_that_is_added_is_found_by_ssh_keygen(tmp_path: Path, hashed: bool) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    path = tmp_path / "new" / "known_hosts"

    known_hosts.append(str(path), "node0", "ssh-ed25519", key(OTHER), hashed=hashed)
    path.write_text(path.read_text().rstrip("\n"))
    known_hosts.append(str(path), "[node1]:2222", "ssh-ed25519", key(ED), hashed=hashed)

    listed = subprocess.run(
        ("ssh-keygen", "-F", "[node1]:2222", "-f", path), capture_output=True, text=True, check=True
    ).stdout
    assert ED in listed
    assert len(path.read_text().splitlines()) == 2
    assert ("node1" in path.read_text()) is not hashed
    assert path.stat().st_mode & 0o777 == 0o600
    assert (
        KnownHosts(parse(path.read_text(), "kh")).judge(("[node1]:2222",), key(ED)).standing
        is Standing.KNOWN
    )


def host(tmp_path: Path, text: str, strict: str = "ask", **more: str) -> ResolvedHost:
    (tmp_path / "kh").write_text(text)
    return ResolvedHost(
        "n1",
        "node1",
        2222,
        "root",
        user_known_hosts=(f"{tmp_path}/kh",),
        strict_host_key_checking=strict,
        **more,
    )  # type: ignore[arg-type]  # one field at a time


def test_a_known_key_is_trusted_without_a_word(tmp_path: Path) -> None:
    assert (
        HostKeys(accept_new=False).check(
            host(tmp_path, f"[node1]:2222 {ED}\n"), "ssh-ed25519", key(ED)
        )
        is None
    )


@pytest.mark.parametrize("strict", ["ask", "yes"])
def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_way_on(
    tmp_path: Path, strict: str
) -> None:
    with pytest.raises(Refused) as refused:
        HostKeys(accept_new=False).check(host(tmp_path, "", strict), "ssh-ed25519", key(ED))

    assert (
        refused.value.reason
        == f"host key of [node1]:2222 is not known: it shows ssh-ed25519 {ED_PRINT}, no line in"
        f" {tmp_path}/kh"
    )
    assert (
        refused.value.next_step
        == f"compare the fingerprint, then: ssh-keyscan -p 2222 -t ed25519 node1 >> {tmp_path}/kh  "
        " or give --accept-new-host-keys"
    )
    assert not refused.value.mismatch
    assert (tmp_path / "kh").read_text() == ""


@pytest.mark.parametrize(
    ("accept_new", "strict"), [(True, "yes"), (False, "accept-new"), (False, "no")]
)
def test_an_unknown_key_is_recorded_where_the_user_allowed_it(
    tmp_path: Path, accept_new: bool, strict: str
) -> None:
    keys = HostKeys(accept_new=accept_new)
    where = host(tmp_path, "", strict)

    note = keys.check(where, "ssh-ed25519", key(ED))

    assert (
        note == f"host key of [node1]:2222 accepted as new: ssh-ed25519 {ED_PRINT}, written to"
        f" {tmp_path}/kh"
    )
    assert (tmp_path / "kh").read_text() == f"[node1]:2222 {ED}\n"
    assert keys.check(where, "ssh-ed25519", key(ED)) is None


@pytest.mark.parametrize("strict", ["ask", "no", "accept-new"])
def test_a_changed_key_is_refused_whatever_is_configured(tmp_path: Path, strict: str) -> None:
    with pytest.raises(Refused) as refused:
        HostKeys(accept_new=True).check(
            host(tmp_path, f"[node1]:2222 {OTHER}\n", strict), "ssh-ed25519", key(ED)
        )

    assert refused.value.mismatch
    assert (
        refused.value.reason
        == f"host key of [node1]:2222 has changed: it shows ssh-ed25519 {ED_PRINT}, "
        f"but {tmp_path}/kh:1 has ssh-ed25519 {fingerprint(key(OTHER))}"
    )
    assert f"ssh-keygen -R '[node1]:2222' -f {tmp_path}/kh" in refused.value.next_step
    assert (tmp_path / "kh").read_text() == f"[node1]:2222 {OTHER}\n"


def test_a_revoked_key_is_refused_though_it_is_listed(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        HostKeys(accept_new=True).check(
            host(tmp_path, f"[node1]:2222 {ED}\n@revoked * {ED}\n"), "ssh-ed25519", key(ED)
        )

    assert refused.value.mismatch
    assert (
        refused.value.reason
        == f"host key of [node1]:2222 is revoked: ssh-ed25519 {ED_PRINT}, {tmp_path}/kh:2"
    )


def test_a_host_known_by_its_authority_is_left_to_openssh(tmp_path: Path) -> None:
    with pytest.raises(Beyond, match=rf"@cert-authority in {tmp_path}/kh:1"):
        HostKeys(accept_new=True).check(
            host(tmp_path, f"@cert-authority [node1]:* {OTHER}\n"), "ssh-ed25519", key(ED)
        )


def test_a_new_key_that_cannot_be_written_down_is_used_and_noted(tmp_path: Path) -> None:
    where = host(tmp_path, "", "accept-new")
    (tmp_path / "kh").unlink()
    (tmp_path / "kh").mkdir()

    note = HostKeys(accept_new=False).check(where, "ssh-ed25519", key(ED))

    assert (
        note
        == f"host key of [node1]:2222 accepted as new: ssh-ed25519 {ED_PRINT}; not written down:"
        f" {tmp_path}/kh: Is a directory"
    )
