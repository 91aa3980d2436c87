"""The script that prints the counters of a node, before and after a benchmark: one round trip over
a connection that is there already.

POSIX sh, reads only. What the kernel has as files is read by one `grep` over all of them, so that a
node with 16 ports costs a few processes. `ethtool -S` and the PCI Express errors are cut to what
matters and is not 0, on the node: a thousand lines per interface would otherwise travel with every
case. Written against Linux 5.4 to 6.18, mlx5, EFA and the NVIDIA drivers 450 to 580.
`busbw.parsers.tools.counters` reads it.
"""

from __future__ import annotations

from busbw import shell
from busbw.model import Command

LIMIT_S = 30.0
"""Of the whole script: four tools at 5 s each, and the waits for what no signal ends."""


def snapshot(store: str, *, gpus: bool = True) -> Command:
    """The script as one command; its output is kept as `raw/<store>`. `gpus=False` leaves out
    nvidia-smi, which takes longer than all the rest."""
    text = f"GPUS={'1' if gpus else ''}\n{shell.load('busbw.checks', 'counters.sh')}"
    return Command(
        ("sh", "-s"), stdin=text.encode(), timeout_s=LIMIT_S, label="counters", store=store
    )
