"""What `nvidia-smi topo -m` prints: how each GPU reaches the other GPUs and the NICs (drivers 450 to 580),
cells separated by tabs, or by blanks where people pasted it. And `topo -p2p`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact, one
from busbw.text import whole_number
from busbw.units import counted

_COLUMN = re.compile(r"^(GPU|NIC)\d+$|^(mlx5_|rdmap|bnxt_re|ibp)\S+$")
_JOINED = re.compile(r"^(NV\d+|PIX|PXB|PHB|NODE|SYS)(NV\d+|PIX|PXB|PHB|NODE|SYS)$")
_PEER_ROW = re.compile(r"^\s*GPU\d+\s+(?:X\s+)?(?:(?:OK|[CGT]?NS|DR|U)\b\s*(?:X\s*)?)+$")
"""Of `nvidia-smi topo -p2p`: whether a GPU can reach another one."""
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

    def has_near(self, nics: tuple[str, ...]) -> bool:
        """Whether one of the NICs is on this GPU's side of the machine."""
        return any(column in nics and word not in ("SYS", "X") for column, word in self.paths)

    def nics_at(self, word: str) -> tuple[str, ...]:
        """NIC columns with that word, in order."""
        return tuple(
            column for column, cell in self.paths if cell == word and not column.startswith("GPU")
        )


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
        return tuple(
            sorted({word for row in self.rows for _, word in row.paths if word.startswith("NV")})
        )

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
    lines = [_plain(line) for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if _is_topology(line, lines[i + 1 :])), None)
    if start is None:
        return None
    parting = "\t" if "\t" in lines[start] else r"\t| {2,}"
    head = [cell.strip() for cell in re.split(parting, lines[start])][1:]
    columns = [cell for cell in head if _COLUMN.match(cell)]
    numa_at = head.index("NUMA Affinity") if "NUMA Affinity" in head else None
    rows = []
    for line in lines[start + 1 :]:
        cells = [cell.strip() for cell in re.split(parting, line.strip(" "))]
        is_head = len(cells) > 1 and _COLUMN.match(cells[1])
        if cells[0] in columns and cells[0].startswith("GPU") and not is_head:
            rows.append(_row(cells[0], cells[1:], columns, numa_at))
    gpus = tuple(c for c in columns if c.startswith("GPU"))
    return Topology(gpus, tuple(c for c in columns if not c.startswith("GPU")), tuple(rows))


def _is_topology(line: str, below: list[str]) -> bool:
    """Whether it is the head line. Other tools print such a line too, with other cells below."""
    if re.match(r"^\s*\t\s*GPU0\b", line):
        return not (below and _PEER_ROW.match(below[0]))
    return bool(
        re.match(r"^ {2,}GPU0\b", line)
        and below
        and re.match(r"^ *GPU0 +X\b", below[0])
        and not _PEER_ROW.match(below[0])
    )


def _row(name: str, cells: list[str], columns: list[str], numa_at: int | None) -> TopologyRow:
    paths: list[tuple[str, str]] = []
    parts = [part for cell in cells for part in _parts(cell)]
    for column, cell in zip(columns, parts, strict=False):
        if not _WORD.match(cell):
            return TopologyRow(name, tuple(paths), None, torn=True)
        paths.append((column, cell))
    torn = len(paths) < len(columns) or len(parts) != len(cells)
    numa = (
        cells[numa_at]
        if numa_at is not None
        and not torn
        and len(cells) > numa_at
        and whole_number(cells[numa_at]) is not None
        else None
    )
    return TopologyRow(name, tuple(paths), numa, torn)


def _parts(cell: str) -> tuple[str, ...]:
    """Two words that lost the tab between them (`PIXNODE`, from a chat) are two cells."""
    joined = _JOINED.match(cell)
    return (joined[1], joined[2]) if joined else (cell,)


def _plain(line: str) -> str:
    """Without the underline codes that newer drivers print around the head line, also into a
    pipe."""
    return re.sub(r"\x1b\[\d*m", "", line)


def parse_peers(text: str) -> tuple[str, ...]:
    """The rows of `nvidia-smi topo -p2p`, in a line each.

    >>> parse_peers("        GPU0    GPU1\\n GPU0   X       CNS\\n GPU1   CNS     X\\n")
    ('GPU0: X CNS', 'GPU1: CNS X')
    """
    rows = [line.split() for line in map(_plain, text.splitlines()) if _PEER_ROW.match(line)]
    return tuple(f"{row[0]}: {' '.join(row[1:])}" for row in rows)


def _topology_facts(matrices: tuple[Topology, ...]) -> Iterator[ToolFact]:
    """GPUs that reach every NIC only across sockets, where other GPUs have a near one."""
    (matrix,) = matrices
    rows = [row for row in matrix.rows if not row.torn]
    near = sum(row.has_near(matrix.nics) for row in rows)
    if near:
        yield ToolFact("os.numa", (("gpus_far_from_nics", float(len(rows) - near)),))


def _torn_rows(matrix: Topology) -> tuple[str, ...]:
    torn = (row.name for row in matrix.rows if row.torn)
    return tuple(f"nvidia-smi topo -m: the row of {name} is torn" for name in torn)


TOOL = (
    Tool(
        name="nvidia-smi topo -m",
        marks=("\tGPU0", "mGPU0", "  GPU0"),
        parse=one(parse),
        lines=lambda matrix: (
            f"{counted(len(matrix.gpus), 'GPU')}, {counted(len(matrix.nics), 'NIC')}",
        ),
        facts=_topology_facts,
        gaps=_torn_rows,
    ),
    Tool(
        name="nvidia-smi topo -p2p",
        marks=("\tGPU0", "mGPU0", "  GPU0"),
        parse=parse_peers,
        lines=lambda row: (row,),
    ),
)
