"""Setting the links of a lab to what its record says, with the kernel's own means."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable

from busbw.errors import LabError
from busbw.lab import enter, requirements, shaping, wiring
from busbw.lab.state import Fault, LabState

_TIMEOUT_S = 30.0
_LINK_FAULTS = ("slow", "loss", "link-down", "uplink")


def apply(state: LabState, concerned: tuple[Fault, ...]) -> None:
    """Set the links that these faults concern to what the record says.

    Raises:
        LabError: the kernel refused.
    """
    network = tuple(fault for fault in concerned if fault.kind in _LINK_FAULTS)
    targets = {fault.target for fault in network}
    nodes = tuple(node for node in state.nodes if node.name in targets)
    kinds = {fault.kind for fault in network}
    if "link-down" in kinds:
        run(
            enter.switch_argv(state, ("ip", "-batch", "-")),
            _text(line for node in nodes for line in shaping.links(state, node)),
        )
    if "slow" in kinds:
        run(
            enter.switch_argv(state, ("tc", "-batch", "-")),
            _text(line for node in nodes for line in shaping.switch_tc(state, node)),
        )
        for node in nodes:
            run(
                enter.switch_argv(state, ("tc", "-n", node.name, "-batch", "-")),
                _text(shaping.node_tc(state, node)),
            )
    if "uplink" in kinds:
        leaves = tuple(leaf for leaf in wiring.leaf_names(state) if leaf in targets)
        run(
            enter.switch_argv(state, ("tc", "-batch", "-")),
            _text(line for leaf in leaves for line in shaping.uplink_tc(state, leaf)),
        )
    if "loss" in kinds:
        run(enter.switch_argv(state, ("nft", "-f", "-")), shaping.loss_rules(state))


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def run(argv: tuple[str, ...], text: str) -> None:
    """Run a command with that text as its input.

    Raises:
        LabError: it failed; `seen` is what it said.
    """
    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=requirements.environment(),
        )
        said = (
            ""
            if done.returncode == 0
            else (done.stderr + done.stdout).strip() or f"exit status {done.returncode}"
        )
    except subprocess.TimeoutExpired:
        said = f"no answer within {_TIMEOUT_S:g} s"
    if said:
        raise LabError(
            "the fault could not be switched",
            seen=f"{shlex.join(argv)}: {said}",
            next_step="busbw lab fault clear",
        )
