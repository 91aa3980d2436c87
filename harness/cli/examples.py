"""Examples at the end of each command's help, all of which parse."""

from __future__ import annotations

import argparse

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "doctor": (("busbw doctor", "what works from here; --json for a script"),),
    "init": (
        ("busbw init -w 'gpu-[001-016]'", "find out what the nodes have, and write busbw.yaml"),
    ),
    "check": (
        ("busbw check -w 'gpu-[001-016]'", "all nodes, read-only"),
        ("busbw check --local", "this machine alone, without ssh"),
    ),
    "run": (
        ("busbw run -w 'gpu-[001-016]' --nccl-tests ~/nccl-tests", "day one of a cluster"),
        ("busbw run quick -i cluster.yaml --dry-run", "what it would do"),
        ("busbw run provider-acceptance --contract contract.yaml", "before signing"),
        ("busbw run --resume runs/latest", "go on with an interrupted run"),
    ),
    "undrain": (
        ("busbw undrain gpu-003", "back into service, if it passes now"),
        ("busbw undrain runs/latest --dry-run", "all that this run took out: what would happen"),
    ),
    "cleanup": (("busbw cleanup runs/latest", "of the newest run in this folder"),),
    "why": (
        ("busbw why nccl.log slurm-4711.out", "the cause in these files"),
        ("busbw why --live -w 'gpu-[001-064]'", "who holds up the job that runs there (read-only)"),
        ("busbw why retry-exceeded-midrun", "what one cause means, and its fix"),
    ),
    "diff": (
        ("busbw diff", "the newest run against the accepted ones"),
        ("busbw diff runs/B runs/A", "B against A"),
    ),
    "baseline": (("busbw baseline accept runs/latest", "take this run as a reference"),),
    "read": (
        ("busbw read all_reduce.out", "tables, warnings and what is wrong with them"),
        ("kubectl logs job/nccl | busbw read -", "from standard input"),
        ("busbw read --contract contract.yaml *.out", "against the numbers of a contract"),
    ),
    "report": (
        ("busbw report runs/latest --junit junit.xml", "for CI"),
        ("busbw report runs/latest --redact", "to give away"),
    ),
    "bundle": (
        ("busbw bundle runs/latest", "for NVIDIA, the vendor or the provider"),
        ("busbw bundle --live -w 'gpu-[001-064]'", "of a job that hangs now"),
    ),
    "expect": (
        (
            "busbw expect --gpu H100 --nodes 8 --nics 8x400 --fabric infiniband",
            "what these nodes should reach",
        ),
    ),
    "cost": (("busbw cost --parameters 70B --nodes 16 --nics 8x400", "of a training step"),),
    "lab": (
        ("busbw lab up -n 4", "four emulated nodes on this machine"),
        ("busbw lab fault slow node3 100mbit", "break one"),
        ("busbw lab down", "take it down"),
    ),
    "completion": (("busbw completion bash", "for ~/.bashrc"),),
    "export": (("busbw export 'runs/*' --csv tables", "cases, rows, groups, nodes, findings"),),
    "history": (("busbw history --html trend.html", "of all runs in runs/"),),
    "site": (("busbw site runs -o public", "then open public/index.html"),),
    "schema": (("busbw schema run", "of run.json"),),
    "version": (("busbw version --json", "for a ticket or an inventory"),),
}
"""Command → (example, what it is for)."""


class Formatter(argparse.HelpFormatter):
    """Keeps the lines of the examples and of tables; breaks all other text."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return text
        return super()._fill_text(text, width, indent)


def text(command: str) -> str:
    """What stands below the options of a command."""
    lines = [f"  {line}\n      {purpose}\n" for line, purpose in EXAMPLES[command]]
    return "examples:\n" + "".join(lines)
