"""Figures that a user added to the shipped tables: one JSON file of rows, each update recorded with
its origin, hash and date. `busbw expect` shows them; the verdict of a run never depends on them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from busbw.building import download
from busbw.codec import dump_json, load_yaml, parse_json
from busbw.errors import BuildError, BusbwError, UsageError
from busbw.files import read_given
from busbw.parsers.expect.cluster import COLLECTIVES
from busbw.parsers.expect.figures import Row, Tables
from busbw.parsers.expect.hardware import find_gpu
from busbw.store.whole_files import write_atomically
from busbw.text import decoded
from busbw.units import counted

SCHEMA = "busbw.figures/1"
MOST_BYTES = 1 << 20
"""Of an update: the shipped tables have a tenth of it."""


@dataclass(frozen=True, slots=True)
class Update:
    """One file or address that was taken in."""

    origin: str
    sha256: str
    at: str
    """RFC 3339, UTC."""
    ids: tuple[str, ...]
    """Rows that it added or changed."""


@dataclass(frozen=True, slots=True)
class OwnFigures:
    """The user's own table."""

    schema: str
    updates: tuple[Update, ...]
    """Oldest first."""
    rows: tuple[Row, ...]
    """By id."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an update does to one row."""

    id: str
    kind: str
    """`added`, `changed` or `same`."""
    text: str
    """The figure; of a changed row each field with the value before and after."""


def default_path() -> Path:
    """Where the table is, unless --table names another place."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(data) / "busbw" / "figures.json"


def load(path: Path) -> OwnFigures:
    """The table; an empty one where there is none yet.

    Raises:
        UsageError: it is not such a table.
    """
    try:
        content = read_given(path, MOST_BYTES)
    except FileNotFoundError:
        return OwnFigures(SCHEMA, (), ())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", next_step="--table FILE") from error
    own = parse_json(content, OwnFigures, str(path))
    if own.schema != SCHEMA:
        raise UsageError(
            f"{path} is of another version",
            seen=f"schema {own.schema}",
            next_step=f"this version reads {SCHEMA}: --table FILE",
        )
    return own


def fetched(origin: str) -> bytes:
    """The content of a file, or of an https address, which may end in `#sha256=HEX`.

    Raises:
        UsageError: it cannot be had, is no https address, is too large, or has another hash.
    """
    if not download.is_address(origin):
        try:
            return read_given(Path(origin), MOST_BYTES)
        except OSError as error:
            raise UsageError(
                f"{origin}: {error.strerror or error}", next_step="a file of rows, or https://…"
            ) from error
    download.refuse_secrets(origin)
    address, _, fragment = origin.partition("#")
    if not address.startswith("https://"):
        raise UsageError(
            f"{address} can be changed by anybody on the way",
            seen="not an https address",
            next_step="https://…, or fetch it yourself and give the file",
        )
    pinned = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
    try:
        content = download.archive(address, pinned, most_bytes=MOST_BYTES)
    except BuildError as error:
        raise UsageError(
            f"figures cannot be fetched from {address}",
            seen=error.seen,
            next_step="fetch them by other means and give the file",
        ) from error
    except BusbwError as error:
        raise UsageError(
            error.what,
            seen=error.seen,
            next_step="fetch it by other means and give the file",
        ) from error
    return content


def rows_of(content: bytes, origin: str, shipped: Tables) -> tuple[Row, ...]:
    """The rows of an update, every one of them checked.

    Raises:
        UsageError: it is no list of rows, an id stands twice or is that of a shipped row, or a row
            could never match: its GPU or collective is unknown, or it has no figure.
    """
    rows = load_yaml(decoded(content), origin, tuple[Row, ...])
    taken = {row.id for row in (*shipped.published, *shipped.thresholds, *shipped.articles)}
    seen: set[str] = set()
    for row in rows:
        why = ""
        if row.id in taken:
            why = "is the id of a shipped row"
        elif row.id in seen:
            why = "stands twice"
        elif row.busbw_gb_s is None or not 0 < row.busbw_gb_s.value < float("inf"):
            why = "has no busbw_gb_s above 0"
        elif row.gpu is None or find_gpu(row.gpu) is None:
            why = f"has a GPU that no table knows: {row.gpu}"
        elif row.collective not in COLLECTIVES:
            why = f"has an unknown collective: {row.collective}"
        if why:
            raise UsageError(
                f"{origin}: row {row.id!r} {why}",
                seen=counted(len(rows), "row"),
                next_step="docs/expect.md has a row; busbw expect --submit RUN writes one",
            )
        seen.add(row.id)
    return rows


def changes(own: OwnFigures, rows: tuple[Row, ...]) -> tuple[Change, ...]:
    """What the rows would do to the table, in their order."""
    known = {row.id: row for row in own.rows}
    return tuple(_change(known.get(row.id), row) for row in rows)


def _change(before: Row | None, row: Row) -> Change:
    figure = f"{row.collective} {row.gpu} {_value(row)} GB/s; {row.source.title}"
    if before is None:
        return Change(row.id, "added", figure)
    if before == row:
        return Change(row.id, "same", figure)
    pairs = (
        (field.name, getattr(before, field.name), getattr(row, field.name))
        for field in dataclasses.fields(row)
    )
    text = "; ".join(
        f"{name}: {_plain(old)} → {_plain(new)}" for name, old, new in pairs if old != new
    )
    return Change(row.id, "changed", text)


def _value(row: Row) -> str:
    return "?" if row.busbw_gb_s is None else f"{row.busbw_gb_s.value:g}"


def _plain(value: object) -> str:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
        return ", ".join(f"{name} {part}" for name, part in parts if part is not None)
    return "not stated" if value is None else str(value)


def merged(
    own: OwnFigures, rows: tuple[Row, ...], origin: str, content: bytes, at: str
) -> OwnFigures:
    """The table with the rows in it, and where they came from."""
    ids = tuple(each.id for each in changes(own, rows) if each.kind != "same")
    by_id = {row.id: row for row in (*own.rows, *rows)}
    update = Update(origin, hashlib.sha256(content).hexdigest(), at, ids)
    every = tuple(by_id[name] for name in sorted(by_id))
    return OwnFigures(SCHEMA, (*own.updates, update), every)


def save(own: OwnFigures, path: Path) -> None:
    """Write it whole.

    Raises:
        UsageError: it would be larger than what is read again.
        RunDirError: the disk refused it.
    """
    content = dump_json(own).encode()
    if len(content) > MOST_BYTES:
        raise UsageError(
            f"{path} would have {len(content):,} bytes with these rows, {MOST_BYTES:,} at most",
            seen=f"{counted(len(own.rows), 'row')}; nothing was written",
            next_step="give fewer rows, or another table: --table FILE",
        )
    write_atomically(path.absolute(), content, mode=0o644)


def with_own(shipped: Tables, own: OwnFigures) -> Tables:
    """The shipped tables and the user's rows."""
    return dataclasses.replace(shipped, published=(*shipped.published, *own.rows))
