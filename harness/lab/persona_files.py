"""The files of invented hardware on a lab's nodes: written when the lab is made, changed when a fault is switched. A node reads them as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

from busbw.lab import persona_faults, persona_sysfs, persona_tools
from busbw.lab.persona_entries import Entry, replace_tree, text, write_tree
from busbw.lab.persona_node import NodeHardware
from busbw.lab.state import LabNode, LabState, Mode

HARDWARE = "hardware"
"""Directory below a node's own."""
_TOOL = Path(__file__).parent / "scripts/tool.sh"


def install(state: LabState, node: LabNode, directory: Path) -> None:
    """Write what the node shows, below its own directory.

    Raises:
        LabError: the lab shows no invented hardware.
    """
    shown = persona_faults.hardware(state, node)
    write_tree(directory / HARDWARE, _tree(shown))
    shutil.copy(_TOOL, directory / HARDWARE / _TOOL.name)
    (directory / HARDWARE / _TOOL.name).chmod(0o755)
    for program in persona_tools.programs(shown, devices=state.mode is Mode.ROOT):
        (directory / "bin" / program).symlink_to(f"../{HARDWARE}/{_TOOL.name}")


def refresh(before: LabState, after: LabState, nodes: Path) -> None:
    """Let every node show what the record says; `nodes` holds the nodes' directories."""
    if after.persona is None:
        return
    for node in after.nodes:
        old, new = persona_faults.hardware(before, node), persona_faults.hardware(after, node)
        if old != new:
            replace_tree(nodes / node.name / HARDWARE, _tree(old), _tree(new))


def _tree(shown: NodeHardware) -> tuple[Entry, ...]:
    return (*persona_sysfs.entries(shown), *persona_tools.entries(shown), text("cpu-model", shown.persona.cpu_model))
