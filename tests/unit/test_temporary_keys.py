"""The line of a temporary key in authorized_keys: added whole or not at all, removed with whatever
was made for it. The real scripts, run here."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from busbw import shell
from busbw.model import Command
from busbw.run import keys

MARK = "busbw-20261121-run"
KEY = b"restrict ssh-ed25519 AAAAC3Nz busbw-20261121-run"
OWN = "ssh-ed25519 AAAAown somebody@home\n\n# a comment\nssh-rsa BBBB other"


def on_node(home: Path, command: Command) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command.argv,
        input=command.stdin,
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".ssh/authorized_keys"


def test_a_file_that_was_made_for_the_key_goes_with_it_also_when_its_maker_was_killed(
    tmp_path: Path, file: Path
) -> None:
    assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
    # Whoever comes back after a kill finds the file there and adds nothing.
    assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
    assert file.read_text().count(KEY.decode()) == 1
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert on_node(tmp_path, keys.forget(MARK)).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_what_was_in_the_file_is_there_afterwards_with_its_mode(tmp_path: Path, file: Path) -> None:
    file.parent.mkdir()
    for content in (OWN, OWN + "\n", "", "\n"):
        file.write_text(content)
        file.chmod(0o640)
        assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
        assert KEY.decode() in file.read_text().splitlines()
        assert on_node(tmp_path, keys.forget(MARK)).returncode == 0
        assert (file.read_text().rstrip("\n"), file.stat().st_mode & 0o777) == (
            content.rstrip("\n"),
            0o640,
        )
        assert [path.name for path in file.parent.iterdir()] == ["authorized_keys"]


@pytest.mark.parametrize("content", [None, OWN, ""])
def test_a_key_of_an_earlier_try_makes_room_for_the_new_one_and_nothing_else_does(
    tmp_path: Path, file: Path, content: str | None
) -> None:
    """A node that was away when its key was removed: the head has a new one when the run goes
    on."""
    if content is not None:
        file.parent.mkdir()
        file.write_text(content)
    new = KEY.replace(b"AAAAC3Nz", b"AAAAnew")
    assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
    assert on_node(tmp_path, keys.allow(MARK, new)).returncode == 0
    lines = file.read_text().splitlines()
    assert (lines.count(new.decode()), lines.count(KEY.decode())) == (1, 0)
    assert lines[: len((content or "").splitlines())] == (content or "").splitlines()
    assert on_node(tmp_path, keys.forget(MARK)).returncode == 0
    assert (
        list(tmp_path.iterdir()) == []
        if content is None
        else file.read_text().rstrip("\n") == content
    )


def test_a_link_stays_a_link(tmp_path: Path, file: Path) -> None:
    file.parent.mkdir()
    (tmp_path / "elsewhere").write_text(OWN)
    file.symlink_to(tmp_path / "elsewhere")
    assert (
        on_node(tmp_path, keys.allow(MARK, KEY)).returncode
        == on_node(tmp_path, keys.forget(MARK)).returncode
        == 0
    )
    assert (file.is_symlink(), (tmp_path / "elsewhere").read_text()) == (True, OWN + "\n")


def test_a_key_that_came_only_in_part_is_refused(tmp_path: Path) -> None:
    refused = on_node(tmp_path, keys.allow(MARK, KEY[:-3]))
    assert (refused.returncode, refused.stderr) == (71, b"the key is truncated\n")
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_name_begins_with_anothers_keeps_its_key(tmp_path: Path, file: Path) -> None:
    assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
    assert on_node(tmp_path, keys.allow(f"{MARK}-2", KEY + b"-2")).returncode == 0
    assert on_node(tmp_path, keys.forget(MARK)).returncode == 0
    assert file.read_text().splitlines()[1:] == [f"{KEY.decode()}-2"]
    assert on_node(tmp_path, keys.forget(f"{MARK}-2")).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_nodes_that_share_a_home_lose_no_key_and_leave_none(tmp_path: Path, file: Path) -> None:
    """Sixteen nodes of four runs at once on one file: each adds its run's key and removes it."""
    file.parent.mkdir()
    file.write_text(OWN + "\n")

    def node(number: int) -> list[int]:
        mark = f"{MARK}-{number % 4}"
        key = KEY + f"-{number % 4}".encode()
        done = []
        for _ in range(2):
            done.append(on_node(tmp_path, keys.allow(mark, key)).returncode)
            assert OWN in file.read_text()
            done.append(on_node(tmp_path, keys.forget(mark)).returncode)
        return done

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(node, range(16)))
    assert statuses == [[0] * 4] * 16
    assert file.read_text() == OWN + "\n"
    assert [path.name for path in file.parent.iterdir()] == ["authorized_keys"]


def test_nodes_that_share_a_home_write_its_file_once(tmp_path: Path, file: Path) -> None:
    """The first node adds the line, the others find it."""
    assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
    written = file.stat()
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: on_node(tmp_path, keys.allow(MARK, KEY)), range(8)))
    assert {each.returncode for each in done} == {0}
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_the_lock_of_a_process_that_was_killed_holds_nobody_up(tmp_path: Path, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(OWN + "\n")
    lock = tmp_path / ".ssh.busbw"
    lock.mkdir()
    (lock / "busbw-other@another-node.77").touch()
    file.with_name("authorized_keys.busbw.busbw-other@another-node.77").write_text("half a file")
    assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
    assert file.read_text() == f"{OWN}\n{KEY.decode()}\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".ssh", "authorized_keys"]


def test_a_process_that_lost_its_lock_puts_nothing_in_place(tmp_path: Path, file: Path) -> None:
    """Its next version is stopped half way; meanwhile another node wrote the file."""
    file.parent.mkdir()
    file.write_text(OWN + "\n")
    slow = keys.allow(MARK, KEY)
    stop = 'mv() { rm "$lock/$me" "$part"; rmdir "$lock"; echo new >> "$file"; unset -f mv; mv "$@"; }\n'
    argv = (*slow.argv[:2], stop + slow.argv[2], *slow.argv[3:])
    assert on_node(tmp_path, dataclasses.replace(slow, argv=argv)).returncode == 0
    assert file.read_text() == f"{OWN}\nnew\n{KEY.decode()}\n"


def test_a_child_of_a_killed_shell_puts_no_key_in_place_after_its_removal(
    tmp_path: Path, file: Path
) -> None:
    """The shell was killed right before its `mv` ran: the line is not there yet, the lock is."""
    file.parent.mkdir()
    file.write_text(OWN + "\n")
    lock = tmp_path / ".ssh.busbw"
    lock.mkdir()
    (lock / f"{MARK}@node1.77").touch()
    part = file.with_name(f"authorized_keys.busbw.{MARK}@node1.77")
    part.write_text(f"{OWN}\n{KEY.decode()}\n")
    assert on_node(tmp_path, keys.forget(MARK)).returncode == 0
    assert not part.exists()
    assert file.read_text() == OWN + "\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".ssh", "authorized_keys"]


@pytest.mark.parametrize("folder", [False, True])
def test_a_folder_whose_maker_was_killed_goes_with_the_key(tmp_path: Path, folder: bool) -> None:
    (tmp_path / ".ssh.made-by-busbw").touch()
    if folder:
        (tmp_path / ".ssh").mkdir()
    assert on_node(tmp_path, keys.forget(MARK)).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_put_beside_the_key_keeps_the_folder(tmp_path: Path, file: Path) -> None:
    assert on_node(tmp_path, keys.allow(MARK, KEY)).returncode == 0
    (file.parent / "config").write_text("Host *\n")
    assert on_node(tmp_path, keys.forget(MARK)).returncode == 0
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".ssh", "config"]


def test_a_key_whose_turn_came_too_late_is_not_added(tmp_path: Path, file: Path) -> None:
    """Whoever sent it has given up on it, and its removal may have been here."""
    file.parent.mkdir()
    file.write_text(OWN + "\n")
    late = keys.allow(MARK, KEY)
    script = late.argv[2].replace("-lt 25 ]", "-lt 0 ]")
    argv = (*late.argv[:2], script, *late.argv[3:])
    done = on_node(tmp_path, dataclasses.replace(late, argv=argv))
    assert (script != late.argv[2], done.returncode) == (True, 75)
    assert b"for too long" in done.stderr
    assert file.read_text() == OWN + "\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".ssh", "authorized_keys"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of a few pages needs root")
def test_a_full_disk_costs_nobody_their_keys(tmp_path: Path) -> None:
    """Neither adding nor removing may leave less than there was; both say why they could not."""
    fill = (
        'mount -t tmpfs -o size=16k tmpfs "$HOME" && mkdir "$HOME/.ssh" && cat >'
        ' "$HOME/.ssh/authorized_keys" || exit 99\n'
    )
    fill += (
        'while printf %s 0123456789012345678901234567890123456789 >> "$HOME/fill"; do :; done'
        " 2>/dev/null\n"
    )
    many = (
        "".join(f"ssh-ed25519 {number:064d} of-the-user\n" for number in range(40))
        + f"ssh-ed25519 AAAA {MARK}"
    )
    for command in (keys.allow(f"{MARK}-2", KEY + b"-2"), keys.forget(MARK)):
        script = (
            f'{fill} exec 3<&0; printf %s "$4" | sh -c "$1" sh "$2" "$3"; echo $? >&2; ls -A .ssh'
            " >&2; cat .ssh/authorized_keys\n"
        )
        words = (*command.argv[2:3], *command.argv[4:6], (command.stdin or b"").decode())
        done = subprocess.run(
            ("unshare", "-m", "sh", "-c", script.replace(" .ssh", ' "$HOME"/.ssh'), "full", *words),
            input=many,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == many
        assert done.stderr.splitlines()[-2:] == ["73", "authorized_keys"], done.stderr
        assert "/.ssh/authorized_keys cannot be written: tmpfs" in done.stderr


def test_the_key_is_good_from_the_addresses_of_the_head_alone(tmp_path: Path) -> None:
    made = ("sh", "-c", shell.load("busbw.run", "make_key.sh"), "key", str(tmp_path), MARK)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ip").write_text(
        "#!/bin/sh\necho '1: lo inet 127.0.0.1/8 scope host lo'\necho '2: eth0 inet 10.0.0.1/24'\n"
    )
    (tools / "ssh-keygen").write_text("#!/bin/sh\ntouch key; echo ssh-ed25519 AAAA $7 > key.pub\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "SSH_CONNECTION": "10.9.9.9 5 10.0.0.7 22"}
    done = subprocess.run(made, env=environment, capture_output=True, text=True, check=True)
    line = keys.key_line(done.stdout)
    assert line is not None
    assert line.startswith(b'restrict,from="10.0.0.7,10.0.0.1')
    assert line.endswith(f" ssh-ed25519 AAAA {MARK}".encode())
    assert keys.key_line("ssh-ed25519 AAAA x\naddress fe80::1%eth0\naddress $(reboot)") is None
