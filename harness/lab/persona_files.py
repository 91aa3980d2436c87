"""The files of invented hardware on a lab's nodes: written when the lab is made, changed when a
fault is switched. A node reads them as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

from busbw.lab import persona_faults
from busbw.lab.file_tree import Entry, replace_tree, text, write_tree
from busbw.lab.node_hardware import NodeHardware
from busbw.lab.persona_sysfs import sysfs_entries
from busbw.lab.persona_tools import programs, tool_entries
from busbw.lab.state import LabNode, LabState, Mode

HARDWARE = "hardware"
"""Directory below a node's own."""
_TOOL = Path(__file__).parent / "scripts/tool.sh"


def install(state: LabState, node: LabNode, directory: Path) -> None:
    """Write what the node shows, below its own directory.

    Raises:
        LabError: the lab shows no invented hardware.
    """
    hardware = persona_faults.hardware(state, node)
    write_tree(directory / HARDWARE, _tree(hardware))
    shutil.copy(_TOOL, directory / HARDWARE / _TOOL.name)
    (directory / HARDWARE / _TOOL.name).chmod(0o755)
    for program in programs(hardware, devices=state.mode is Mode.ROOT):
        (directory / "bin" / program).symlink_to(f"../{HARDWARE}/{_TOOL.name}")


def refresh(before: LabState, after: LabState, nodes: Path) -> None:
    """Let every node show what the record says; `nodes` holds the nodes' directories."""
    if after.persona is None:
        return
    for node in after.nodes:
        old, new = persona_faults.hardware(before, node), persona_faults.hardware(after, node)
        if old != new:
            replace_tree(nodes / node.name / HARDWARE, _tree(old), _tree(new))


def _tree(node: NodeHardware) -> tuple[Entry, ...]:
    return (*sysfs_entries(node), *tool_entries(node), text("cpu-model", node.persona.cpu_model))
