"""One rank of a PyTorch job over gloo, whose flight recorder is written to
TORCH_FR_DUMP_TEMP_FILE<rank> once it makes no progress.

GLOO_FAULT = straggler, skip, size or dead, in rank GLOO_WHO from the tenth step on. NCCL's watchdog
writes such dumps by itself; gloo has none, so a thread of the job does. A rank whose collective
fails keeps waiting, as jobs do whose error handler hangs.
"""

from __future__ import annotations

import datetime
import os
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

RANK = int(os.environ["RANK"])
FAULT, WHO = os.environ.get("GLOO_FAULT", "none"), int(os.environ.get("GLOO_WHO", "1"))
TARGET = Path(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{RANK}")
progress = [time.monotonic()]


def dump() -> None:
    """Write what the recorder holds, whole or not at all."""
    part = TARGET.with_suffix(".part")
    part.write_bytes(c10d._dump_fr_trace())
    part.rename(TARGET)


def watch() -> None:
    while True:
        time.sleep(0.3)
        if time.monotonic() - progress[0] > 1.0:
            dump()


def step(number: int, data: torch.Tensor) -> None:
    mine = number >= 10 and RANK == WHO
    if mine and FAULT == "straggler":
        dump()
        time.sleep(100000)
    if mine and FAULT == "dead":
        os._exit(1)
    if mine and FAULT == "skip" and number == 10:
        pass
    else:
        dist.all_reduce(torch.ones(2048) if mine and FAULT == "size" else data)
    gathered = [torch.zeros(16) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, torch.ones(16))


def main() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    threading.Thread(target=watch, daemon=True).start()
    data = torch.ones(1024)
    print("joined", flush=True)
    try:
        for number in range(10**9):
            step(number, data)
            progress[0] = time.monotonic()
            time.sleep(0.02)
    except RuntimeError as error:
        print(f"[rank{RANK}]: {type(error).__name__}: {error}", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
