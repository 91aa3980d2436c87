"""One run is one directory, and the directory is the whole truth.

::

    runs/20261120-131200-day-one/
      run.json report.html summary.md commands.sh     derived: deleted and rebuilt at will
      raw/plan.json raw/reach.json raw/…              what was planned and seen: written once, never edited
      raw/nodes/NODE/NNN-LABEL.{json,out,err}         every command of every node (`busbw.transport.recorder`)
      raw/events.jsonl                                what happened when; appended line by line
      raw/files.jsonl                                 all other files of raw/: length and SHA-256

Every file is written to a temporary name, flushed to the disk and renamed: a name that exists is
whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw import files
from busbw.errors import BusyError, NoRunError, RunDirError
from busbw.parsers.logs.json_values import loaded, mapping
from busbw.store.whole_files import (
    MODE_DIRECTORY,
    make_folder,
    private,
    refused,
    write_atomically,
)

_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def _unwritten(name: str) -> str:
    """The line that takes a file from the list."""
    return json.dumps({"was": name})


def _listed(name: str, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    return json.dumps({"name": name, "bytes": len(content), "sha256": digest})


def shown_path(folder: Path) -> str:
    """A folder as the user would type it here; from inside it its full path, since `.` names nothing
    to whoever finds the line in a log."""
    relative = os.path.relpath(folder)
    return os.path.abspath(folder) if relative.strip("./") == "" else relative


def new_run_id(started: str, playbook: str, chance: str) -> str:
    """The folder name of a run that starts at `started` (RFC 3339, UTC): sorts by time, says what
    it was. `chance` tells runs of one second apart: folders, marks and keys on nodes have this name.

    >>> new_run_id("2026-11-20T13:12:00Z", "day-one", "5e0c1f")
    '20261120-131200-day-one-5e0c1f'
    """
    digits = re.sub(r"\D", "", started)[:14]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", playbook).strip("-.") or "run"
    return f"{digits[:8]}-{digits[8:]}-{name}-{chance}"


LIST = "files.jsonl"
_APPENDED = frozenset({LIST, "events.jsonl"})
"""Files that grow while a run goes on, so that no length can be written down for them."""
_NAMED = 4
"""Damaged files that an error names; more are counted."""
_MOST_UNWRITTEN = 64
"""Files that a process may be writing at once: one for each node that it talks to at a time."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of `raw/` that is not as it was written."""

    name: str
    why: str
    altered: bool = True
    """False = it is missing, or nobody knows what it was."""


@dataclass(frozen=True)
class RunDir:
    """An existing run directory. Writing is safe from several threads."""

    path: Path
    hidden: frozenset[str] = frozenset()
    """Names below `raw/` that are read as if they were not there: they are damaged."""
    sums: Mapping[str, str] | None = field(default=None, repr=False, compare=False)
    """Name below `raw/` → SHA-256 of what is read as evidence; None = not held to any."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def run_id(self) -> str:
        """The folder's own name."""
        return self.path.name

    @property
    def shown(self) -> str:
        """The folder, as the user would type it here."""
        return shown_path(self.path)

    @property
    def raw(self) -> Path:
        """What was planned and seen."""
        return self.path / "raw"

    def write_raw(self, name: str, data: bytes | str) -> str:
        """Keep `data` as `raw/name`, once; returns the path inside the run directory.

        Raises:
            RunDirError: the name exists with other content, or the disk refused it.
        """
        content = data.encode() if isinstance(data, str) else data
        target = self.raw / _inside(name)
        if os.path.lexists(target):
            if self.read_raw(name) == content:
                return f"raw/{name}"
            raise RunDirError(
                f"raw/{name} of run {self.run_id} would be overwritten",
                seen=f"{target} exists with other content",
                next_step="start a new run; what was measured is never edited",
            )
        # The line comes first: a file without its line is one that somebody else put there.
        self._append(LIST, _listed(name, content))
        try:
            self._write(f"raw/{name}", content)
        except RunDirError:
            # A file that the disk refused is not missing, else no resumed run could ever pass.
            with contextlib.suppress(RunDirError):
                self._append(LIST, _unwritten(name))
            raise
        return f"raw/{name}"

    def write_derived(self, name: str, text: str) -> Path:
        """Write a file that can be rebuilt from `raw/`."""
        self._write(_inside(name), text.encode())
        return self.path / name

    def _write(self, name: str, content: bytes) -> None:
        """Write a file whole, below this directory: a link in its path is refused."""
        *folders, _ = name.split("/")
        try:
            with files.folder_beneath(self.path, tuple(folders), MODE_DIRECTORY):
                pass
        except OSError as error:
            raise refused(self.path / name, error) from error
        write_atomically(self.path / name, content)

    def read_raw(self, name: str) -> bytes | None:
        """The content of `raw/name`; None = there is none, so that step did not finish, or it is no
        regular file: `damage` says which.

        Raises:
            RunDirError: it is no longer what it was when `sound` looked at it.
        """
        if name in self.hidden:
            return None
        try:
            content = files.read_beneath(self.path, f"raw/{_inside(name)}")
        except OSError:
            content = None
        if self.sums is None or name in _APPENDED:
            return content
        seen = hashlib.sha256(content).hexdigest() if content is not None else ""
        if seen == self.sums.get(name, ""):
            return content
        if name not in self.sums:
            # It came after the look at the whole: no part of what is judged.
            return None
        raise RunDirError(
            f"run {self.run_id} changed while it was read",
            seen=f"{self.raw / name} is {'other content' if content is not None else 'gone'}",
            next_step="wait until nothing writes to the folder, then read it again",
        )

    def kept(self, path: str | None) -> bytes | None:
        """The content of a file by its path in records (`raw/NAME`, as `write_raw` returned it);
        None = a record without one, or as `read_raw`.

        Raises:
            RunDirError: as `read_raw`.
        """
        return self.read_raw(path.removeprefix("raw/")) if path else None

    def read_derived(self, name: str) -> bytes:
        """The content of a derived file.

        Raises:
            FileNotFoundError: it is not there.
            RunDirError: it is no regular file, or cannot be read.
        """
        try:
            return files.read_beneath(self.path, _inside(name))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RunDirError(
                f"{self.path}/{name} cannot be read",
                seen=str(error),
                next_step=f"busbw report {self.path}",
            ) from error

    def raw_names(self, under: str = "") -> tuple[str, ...]:
        """Names of all files below `raw/under`, sorted, relative to `raw/`. Temporary names of an
        interrupted write and the list of files are left out."""
        top = self.raw / _inside(under) if under else self.raw
        names = {
            p.relative_to(self.raw).as_posix()
            for p in files.below(top)
            if not p.name.startswith(".tmp-") and p != self.raw / LIST
        }
        return tuple(sorted(names - self.hidden))

    def set_aside(self, name: str) -> None:
        """Move `raw/name` (a file or a folder) to `raw/earlier/N/name`: kept as it is, and no
        longer part of the result.

        For what an earlier try of this run could not finish."""
        source = self.raw / _inside(name)
        number = 1
        while (self.raw / "earlier" / str(number) / name).exists():
            number += 1
        moved = f"earlier/{number}/{name}"
        target = self.raw / moved
        names = self.raw_names(name) if source.is_dir() else (name,)
        known = self._list()
        make_folder(target.parent)
        for each in names:
            if each in known:
                entry = {**known[each], "name": moved + each.removeprefix(name), "was": each}
                self._append(LIST, json.dumps(entry))
        os.replace(source, target)

    def was_set_aside(self, name: str) -> bool:
        """An earlier try of this run left a `raw/name` that counts no more."""
        return any(self.raw.glob(f"earlier/*/{glob.escape(_inside(name))}"))

    def event(self, at: str, step: str, kind: str, **fields: str | float | int | None) -> None:
        """Append one line to `raw/events.jsonl`; `at` is RFC 3339, UTC. A line that was cut off
        before it stays a line of its own.

        Raises:
            RunDirError: the disk refused it.
        """
        self._append(
            "events.jsonl",
            json.dumps({"at": at, "step": step, "kind": kind, **fields}, ensure_ascii=False),
        )

    def damage(self) -> tuple[Damage, ...]:
        """What of `raw/` is missing, cut, changed or of somebody else, by name; () = all is as it
        was written."""
        return self._looked_at()[0]

    def sound(self) -> tuple[RunDir, tuple[Damage, ...]]:
        """The run without its damaged files, as it is now, and the damage. What is no evidence is
        not read as such; what changes from here on is an error, and what is new is not read."""
        damage, sums = self._looked_at()
        hidden = frozenset(each.name for each in damage if each.altered)
        return RunDir(self.path, hidden, sums), damage

    def _looked_at(self) -> tuple[tuple[Damage, ...], dict[str, str]]:
        """The damage, and the SHA-256 of each file that is there."""
        known = self._list()
        found, sums = [], {}
        for name in sorted({*known, *self.raw_names()} - _APPENDED):
            entry, content, why = known.get(name), None, "missing"
            try:
                content = files.read_beneath(self.path, f"raw/{name}")
            except FileNotFoundError:
                pass
            except OSError as error:
                why = str(error) if isinstance(error, files.Irregular) else error.strerror or "?"
            if content is not None:
                sums[name] = hashlib.sha256(content).hexdigest()
            if why != "missing":
                found.append(Damage(name, why))
            elif entry is None:
                found.append(Damage(name, f"not in raw/{LIST}", altered=False))
            elif content is None:
                found.append(Damage(name, why, altered=False))
            elif len(content) != entry.get("bytes"):
                found.append(Damage(name, f"{len(content)} bytes of {entry.get('bytes')}"))
            elif sums[name] != entry.get("sha256"):
                found.append(Damage(name, "other content"))
        # A name may hold bytes that are no text.
        return tuple(replace(each, name=_printable(each.name)) for each in found), sums

    def require_undamaged(self) -> None:
        """Nothing where `raw/` is as it was written.

        Raises:
            RunDirError: it is not; the first line names the files.
        """
        damage = self.damage()
        if not damage:
            return
        named = ", ".join(f"raw/{each.name} ({each.why})" for each in damage[:_NAMED])
        more = f" and {len(damage) - _NAMED} more" if len(damage) > _NAMED else ""
        raise RunDirError(
            f"files of run {self.run_id} are not as they were written: {named}{more}",
            seen=f"raw/{LIST} has other lengths or SHA-256 sums",
            next_step="copy the whole run directory again, or repeat the run",
        )

    def _list(self) -> dict[str, dict[str, object]]:
        """Name → its newest line in the list of files. A line that was cut off names no file: the
        line is written before its file."""
        known: dict[str, dict[str, object]] = {}
        for line in (self.read_raw(LIST) or b"").splitlines():
            try:
                entry = mapping(loaded(line))
            except ValueError:
                continue
            known.pop(str(entry.get("was")), None)
            if isinstance(name := entry.get("name"), str):
                known[name] = entry
        return known

    def forget_unwritten(self) -> None:
        """Take from the list the answers of nodes whose line came and whose file did not: the process
        was killed in between. Among the newest lines alone; what others miss is damage."""
        for name in tuple(self._list())[-_MOST_UNWRITTEN:]:
            if name.startswith("nodes/") and not os.path.lexists(self.raw / name):
                self._append(LIST, _unwritten(name))

    def _append(self, name: str, line: str) -> None:
        """One line more; after one that was cut off it stays a line of its own."""
        path = self.raw / name
        line = f"{line}\n"
        try:
            with self._lock, open(path, "ab+", opener=private) as stream:
                if stream.tell():
                    stream.seek(-1, os.SEEK_END)
                    line = line if stream.read(1) == b"\n" else f"\n{line}"
                stream.write(line.encode())
        except OSError as error:
            raise refused(path, error) from error


def create(root: Path, started: str, playbook: str, *, link: str = "latest") -> RunDir:
    """Make the directory of a new run below `root` and point `root/latest` at it.

    Args:
        link: instead of `latest`, for what is not a run that can be compared or resumed.

    Raises:
        RunDirError: the directory cannot be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = root / new_run_id(started, playbook, secrets.token_hex(3))
        path.mkdir(mode=MODE_DIRECTORY)
        (path / "raw").mkdir(mode=MODE_DIRECTORY)
        _point(root, link, path.name)
    except OSError as error:
        raise RunDirError(
            f"cannot make a run directory in {root}",
            seen=str(error),
            next_step="choose another place with --out DIR",
        ) from error
    return RunDir(path)


@contextlib.contextmanager
def withdrawn_if_refused(run: RunDir) -> Iterator[None]:
    """Takes a new run back where its nodes are in use: nothing was measured, so it is no answer that
    a report may give, and the newest run is the one before it.

    Raises:
        BusyError: as it came.
    """
    try:
        yield
    except BusyError:
        root, link = run.path.parent, run.path.parent / "latest"
        was_latest = link.is_symlink() and link.readlink() == Path(run.path.name)
        shutil.rmtree(run.path, ignore_errors=True)
        if was_latest:
            others = (path for path in root.iterdir() if (path / "raw").is_dir() and path != link)
            before = max(others, key=lambda path: path.name, default=None)
            if before is None:
                link.unlink()
            else:
                _point(root, "latest", before.name)
        raise


def open_existing(path: Path) -> RunDir:
    """An existing run directory, for `report`, `--resume` and replay.

    Raises:
        NoRunError: it is not there, or it is not a run directory.
        RunDirError: it may not be read.
    """
    resolved = path.resolve()
    raw = resolved / "raw"
    try:
        is_run = raw.is_dir() and not raw.is_symlink()
        seen = f"{resolved} has no folder raw/" if resolved.exists() else "no such directory"
        if is_run:
            with os.scandir(raw):
                pass
    except OSError as error:
        raise RunDirError(
            f"{path} cannot be read",
            seen=str(error),
            next_step="read it as its owner, or have its owner copy it",
        ) from error
    if not is_run:
        raise NoRunError(
            f"{path} is not a run directory",
            seen=seen,
            next_step="give a folder that `busbw run` made, e.g. runs/latest",
        )
    return RunDir(resolved)


@contextlib.contextmanager
def locked(run: RunDir) -> Iterator[None]:
    """Keeps every other process from working on the run meanwhile. It ends with this process,
    however that ends.

    A file system that has no locks, or no room, does without.

    Raises:
        BusyError: another process works on it.
    """
    lock = run.path / ".lock"
    try:
        stream = open(lock, "a+", encoding="utf-8", opener=private)  # noqa: SIM115 - closed below
    except OSError as error:
        raise refused(lock, error) from error
    with contextlib.closing(stream):
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(stream.fileno(), 0)
            os.write(stream.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except BlockingIOError as error:
            stream.seek(0)
            raise BusyError(
                f"another busbw works on run {run.run_id}",
                seen=stream.read().strip() or f"{lock} is locked",
                next_step="let it end, or end it with Ctrl-C; then try again",
            ) from error
        except OSError:
            pass
        yield


def worker(run: RunDir) -> str:
    """The process that works on the run now, in words; "" = nobody does, or nobody can tell."""
    try:
        with open(run.path / ".lock", encoding="utf-8", opener=private) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return stream.read().strip() or "another process"
    except OSError:
        pass
    return ""


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def _inside(name: str) -> str:
    """`name`, checked to stay below the run directory.

    Raises:
        RunDirError: it is absolute, or a part of it is not a plain name.
    """
    parts = name.split("/")
    if not all(_ID.match(part) for part in parts):
        raise RunDirError(
            f"{name!r} is not a name inside a run directory",
            seen=name,
            next_step="report this as a defect",
        )
    return name


def _point(root: Path, link: str, name: str) -> None:
    """Move the link, leaving no moment without it. A file system without links does without it."""
    temporary = root / f".{link}-{os.getpid()}"
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(name)
        os.replace(temporary, root / link)
    except OSError:
        temporary.unlink(missing_ok=True)
