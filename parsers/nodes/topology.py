"""What `nvidia-smi topo -m` prints: how each GPU reaches the other GPUs and the NICs (drivers 450 to 580), cells parted by tabs."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COLUMN = re.compile(r"^(GPU|NIC)\d+$|^(mlx5_|rdmap|bnxt_re|ibp)\S+$")
_JOINED = re.compile(r"^(NV\d+|PIX|PXB|PHB|NODE|SYS)(NV\d+|PIX|PXB|PHB|NODE|SYS)$")
_WORD = re.compile(r"^(X|NV\d+|PIX|PXB|PHB|NODE|SYS)$")


@dataclass(frozen=True, slots=True)
class TopologyRow:
    """One GPU's row."""

    name: str
    paths: tuple[tuple[str, str], ...]
    """(column, word): NV18, PIX, PXB, PHB, NODE, SYS; X = itself."""
    numa: str | None
    """NUMA node; None = not in the text, or the row is torn."""
    torn: bool
    """True = cells are missing or lost the tab between them; `paths` holds what can be read."""

    def path(self, column: str) -> str | None:
        """The word under a column; None = none that can be trusted."""
        return dict(self.paths).get(column)

    def nics_at(self, word: str) -> tuple[str, ...]:
        """NIC columns with that word, in order."""
        return tuple(column for column, said in self.paths if said == word and not column.startswith("GPU"))


@dataclass(frozen=True, slots=True)
class Topology:
    """The matrix."""

    gpus: tuple[str, ...]
    """GPU columns of the head line."""
    nics: tuple[str, ...]
    rows: tuple[TopologyRow, ...]
    """GPU rows only; fewer than `gpus` = the text is cut."""

    @property
    def nvlinks(self) -> tuple[str, ...]:
        """The NVLink words between GPUs, each once, sorted; () = no NVLink."""
        return tuple(sorted({word for row in self.rows for _, word in row.paths if word.startswith("NV")}))

    @property
    def numa_nodes(self) -> tuple[str, ...]:
        """NUMA nodes of the GPUs, each once, sorted."""
        return tuple(sorted({row.numa for row in self.rows if row.numa is not None}))


def parse(text: str) -> Topology | None:
    """The matrix; None = the text has none.

    >>> t = parse("\\tGPU0\\tNIC0\\tCPU Affinity\\tNUMA Affinity\\nGPU0\\t X \\tPIX\\t0-31\\t0\\nNIC0\\tPIX\\t X \\t\\t\\n")
    >>> t.rows[0].nics_at("PIX"), t.numa_nodes
    (('NIC0',), ('0',))
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if re.match(r"^\s*\t\s*(?:\x1b\[\d*m)?GPU0\b", line)), None)
    if start is None:
        return None
    head = [cell.strip() for cell in _plain(lines[start]).split("\t")][1:]
    columns = [cell for cell in head if _COLUMN.match(cell)]
    numa_at = head.index("NUMA Affinity") if "NUMA Affinity" in head else None
    rows = []
    for line in lines[start + 1 :]:
        cells = [cell.strip() for cell in _plain(line).split("\t")]
        if cells[0] in columns and cells[0].startswith("GPU"):
            rows.append(_row(cells[0], cells[1:], columns, numa_at))
    gpus = tuple(c for c in columns if c.startswith("GPU"))
    return Topology(gpus, tuple(c for c in columns if not c.startswith("GPU")), tuple(rows))


def _row(name: str, cells: list[str], columns: list[str], numa_at: int | None) -> TopologyRow:
    paths: list[tuple[str, str]] = []
    whole = [part for cell in cells for part in _parts(cell)]
    for column, cell in zip(columns, whole, strict=False):
        if not _WORD.match(cell):
            return TopologyRow(name, tuple(paths), None, torn=True)
        paths.append((column, cell))
    torn = len(paths) < len(columns) or len(whole) != len(cells)
    numa = cells[numa_at] if numa_at is not None and not torn and len(cells) > numa_at and cells[numa_at].isdigit() else None
    return TopologyRow(name, tuple(paths), numa, torn)


def _parts(cell: str) -> tuple[str, ...]:
    """Two words that lost the tab between them (`PIXNODE`, from a chat) are two cells."""
    joined = _JOINED.match(cell)
    return (joined[1], joined[2]) if joined else (cell,)


def _plain(line: str) -> str:
    """Without the underline codes that newer drivers print around the head line, also into a pipe."""
    return re.sub(r"\x1b\[\d*m", "", line)
