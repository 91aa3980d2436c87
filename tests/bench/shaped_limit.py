"""The computed limit of shaped links against what a ring all-reduce over them reaches: never above,
within 15 % from 32 bursts a rank on.

As root: `python tests/bench/shaped_limit.py [RATE…]` (200mbit 400mbit). For each rate a lab of four
nodes, one rail each, is measured with `busbw run` at growing sizes; printed are what each rank
sends in bursts of the shaper, bus bandwidth by the table (out of place), the limit that the
formulas give for the rate (`limits_link.tcp_payload`, `limits.ring`), and the share of it. Nothing
is judged.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from busbw.lab import bringup
from busbw.lab.bringup import LabOptions
from busbw.lab.network import BURST_BYTES
from busbw.parsers.expect import limits, link_rates
from busbw.parsers.expect.limits import Rates

NODES = 4
PLAYBOOK = """\
description: A ring over shaped links at growing sizes.
checks: {required: [ssh.connect, sw.mpirun]}
cases:
  - {id: ring, collective: all_reduce, sizes: 2M..16M *2, ranks_per_node: 1, iterations: 6, warmup: 1, check: 0, timeout: 3m, stall: 60s}
survey: {when: never}
lab: {payload: lab, fabric: lab}
"""


def limit_gb_s(rate_bit_s: float) -> float:
    """What a rail of that rate carries of a ring."""
    found = limits.ring(Rates(NODES, 1, link_rates.tcp_payload(rate_bit_s / 8e9, 9000).value_gb_s))
    assert found is not None
    return found.value_gb_s


def rows(lab: str, folder: Path) -> list[tuple[int, float]]:
    """(size, bus bandwidth in GB/s) of one run."""
    playbook = folder / "ring.yaml"
    playbook.write_text(PLAYBOOK)
    argv = (
        sys.executable,
        "-m",
        "busbw",
        "run",
        str(playbook),
        "-i",
        f"lab:{lab}",
        "--out",
        str(folder / "runs"),
    )
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False)
    result = json.loads((folder / "runs/latest/run.json").read_text())
    table = result["cases"][0]["results"][-1]["rows"]
    return [(row["size_bytes"], row["out_of_place"]["busbw_gb_s"]) for row in table]


def main(rates: tuple[float, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="busbw-shaped-") as directory:
        os.environ["BUSBW_LAB_DIR"] = f"{directory}/labs"
        print(
            f"{'rate':>9} {'size MiB':>9} {'bursts':>7} {'busbw GB/s':>11} {'limit GB/s':>11}"
            f" {'share':>6}"
        )
        for number, rate in enumerate(rates):
            lab = bringup.up(
                LabOptions(nodes=NODES, name=f"shaped{number}", rate_bit_s=rate, cgroups=False),
                lambda text: None,
            )
            try:
                folder = Path(directory) / str(number)
                folder.mkdir()
                limit = limit_gb_s(rate)
                for size, busbw in rows(lab.name, folder):
                    bursts = 2 * (NODES - 1) / NODES * size / BURST_BYTES
                    print(
                        f"{rate / 1e6:>5.0f} Mb/s {size / (1 << 20):>8.0f} {bursts:>7.0f}"
                        f" {busbw:>11.4f} {limit:>11.4f} {busbw / limit:>6.1%}",
                        flush=True,
                    )
            finally:
                bringup.down(lab.name)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    # so that the lab is taken down then, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(tuple(float(word.removesuffix("mbit")) * 1e6 for word in sys.argv[1:]) or (200e6, 400e6))
