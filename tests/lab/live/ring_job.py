"""One rank of a small real job in lockstep: a ring over TCP, its operations counted, and NCCL's RAS
spoken by a double on every node.

Standard library only. RANK, WORLD_SIZE and LOCAL_RANK are the rank's; RING_HOSTS names the address
of every rank. RING_FAULT = KIND:RANK:STEP[:TEXT] is what goes wrong, in that rank at that step. The
RAS double (local rank 0, port 28028 on loopback) speaks the protocol of NCCL 2.28 and asks every
rank for its real counts at the moment of the question; RING_RAS = json, text or off.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import threading
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HOSTS = os.environ["RING_HOSTS"].split(",")
DATA, CONTROL, RAS = 21000, 22000, 28028
CHUNK = int(os.environ.get("RING_BYTES", "65536"))
PAUSE_S = float(os.environ.get("RING_PAUSE", "0.02"))
KIND, WHO, STEP, TEXT = [*os.environ.get("RING_FAULT", "none:-1:0").split(":", 3), ""][:4]
COLLECTIVES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
COMMUNICATORS = ("5c9ac0b1e5a13c77", "77aa0111d2a0beef")
IN_PROGRESS, READY = 7, 0
own: dict[str, object] = {"init": IN_PROGRESS, "pid": os.getpid()}
counts = [dict.fromkeys(COLLECTIVES, 0), dict.fromkeys(COLLECTIVES, 0)]
known: dict[int, int] = {}
HEAD = """\
NCCL version 2.28.9 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
"""
TABLE = """
Communicators... (0.004s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
Answers = list[dict[str, object] | None]


def serve_counts() -> None:
    """Answer every question with the counts of this rank."""
    server = socket.create_server((HOSTS[RANK], CONTROL + RANK), backlog=64)
    while True:
        peer, _ = server.accept()
        with contextlib.suppress(OSError), peer:
            peer.sendall(json.dumps({**own, "counts": counts}).encode())


def ask(rank: int) -> dict[str, object] | None:
    """The counts of a rank; None = it does not answer."""
    try:
        with socket.create_connection((HOSTS[rank], CONTROL + rank), timeout=2.0) as peer:
            peer.settimeout(2.0)
            data = b""
            while chunk := peer.recv(65536):
                data += chunk
            found: dict[str, object] = json.loads(data)
    except (OSError, ValueError):
        return None
    known[rank] = int(str(found["pid"]))
    return found


def ask_all() -> Answers:
    """The answers of all ranks, asked at once."""
    told: Answers = [None] * WORLD

    def one(rank: int) -> None:
        told[rank] = ask(rank)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(WORLD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def of_communicator(told: Answers, at: int) -> list[tuple[int, dict[str, int] | None, object]]:
    """(rank, its counts there or None, its state) of every rank."""
    found = []
    for rank, answer in enumerate(told):
        listed = answer["counts"] if answer else None
        found.append(
            (
                rank,
                listed[at] if isinstance(listed, list) else None,
                answer["init"] if answer else None,
            )
        )
    return found


def as_json() -> str:
    told, tree = ask_all(), []
    for at, name in enumerate(COMMUNICATORS):
        ranks = of_communicator(told, at)
        flags = {
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        }
        there = [
            {**place(r), "status": {"init_state": state, **flags}, "collective_counts": c}
            for r, c, state in ranks
            if c is not None
        ]
        gone = [
            {**place(rank), "status": {"unresponsive": True, "considered_dead": False}}
            for rank, c, _ in ranks
            if c is None
        ]
        sizes = {"size": WORLD, "ranks_count": len(there), "missing_ranks_count": len(gone)}
        tree.append(
            {
                "hash": f"0x{name}",
                "secondary_hash": "0x0:0x0",
                **sizes,
                "ranks": there,
                "missing_ranks": gone,
            }
        )
    head: dict[str, object] = {
        "nccl_version": "2.28.9",
        "cuda_runtime_version": 12090,
        "cuda_driver_version": 13000,
    }
    head["timestamp"] = time.strftime("%Y-%m-%d %H:%M:%S")
    ras = {"collection_time_sec": 0.004, "timeouts_count": 0}
    return (
        json.dumps(
            {**head, "communicators_count": len(tree), "communicators": tree, "ras": ras}, indent=2
        )
        + "\n"
    )


def place(rank: int) -> dict[str, object]:
    return {
        "rank": rank,
        "host": HOSTS[rank],
        "pid": known.get(rank, 0),
        "cuda_dev": 0,
        "nvml_dev": 0,
    }


def as_text() -> str:
    """The report as VERBOSE STATUS prints it."""
    rows, errors, warnings = [], [], []
    told = ask_all()
    for at, name in enumerate(COMMUNICATORS):
        ranks = of_communicator(told, at)
        words = []
        gone = [rank for rank, c, _ in ranks if c is None]
        if gone:
            words.append("INCOMPLETE")
            lines = "".join(f"  Rank {rank} -- {owner(rank)}\n" for rank in gone)
            errors.append(
                f"#0-{at} ({name}) INCOMPLETE\n  Missing communicator data from {len(gone)}"
                f" rank{'s' * (len(gone) > 1)}\n{lines}\n"
            )
        for collective in COLLECTIVES:
            groups: dict[int, list[int]] = {}
            for rank, c, _ in ranks:
                if c is not None:
                    groups.setdefault(c[collective], []).append(rank)
            if len(groups) > 1:
                words += [] if "MISMATCH" in words else ["MISMATCH"]
                said = f"  Communicator ranks have different {collective} operation counts\n"
                warnings.append(f"#0-{at} ({name}) MISMATCH\n{said}{told_groups(groups)}\n")
        state = "RUNNING" if any(state == READY for _, _, state in ranks) else "INIT"
        rows.append(
            f"{at:5d}  {1:8d}  {len(set(HOSTS)):8d}  {'2':>8}  {WORLD:8d}  {WORLD:8d}  {state:>8} "
            f" {','.join(words) or 'OK'}\n"
        )
    nodes = len(set(HOSTS))
    text = (
        f"{HEAD}{nodes:7d}  {WORLD // nodes:9d}  {1:11d}  {WORLD:9d} "
        f" {WORLD:7d}\n{TABLE}{''.join(rows)}\n"
    )
    text += "Errors\n======\n\n" + "".join(errors) if errors else ""
    return text + ("Warnings\n========\n\n" + "".join(warnings) if warnings else "")


def told_groups(groups: dict[int, list[int]]) -> str:
    lines = ""
    for count, ranks in sorted(groups.items(), key=lambda item: -len(item[1])):
        said = f"launched up to operation {count}" if count else "not launched any operations"
        if len(ranks) == 1:
            lines += f"  Rank {ranks[0]} has {said} -- {owner(ranks[0])}\n"
            continue
        lines += f"  {len(ranks)} ranks have {said}\n"
        if 2 * len(ranks) < WORLD:
            lines += "".join(f"  Rank {rank} -- {owner(rank)}\n" for rank in ranks)
    return lines


def owner(rank: int) -> str:
    return f"GPU 0 managed by process {known.get(rank, 0)} on node {HOSTS[rank]}"


def serve_ras(form: str) -> None:
    """The protocol: one line is one command; STATUS ends the connection."""
    server = socket.create_server(("127.0.0.1", RAS), backlog=16)
    while True:
        peer, _ = server.accept()
        threading.Thread(target=ras_client, args=(peer, form), daemon=True).start()


def ras_client(peer: socket.socket, form: str) -> None:
    wanted = "text"
    with contextlib.suppress(OSError), peer, peer.makefile("rwb") as stream:
        for raw in stream:
            line = raw.decode("utf-8", "replace").strip()
            low = line.lower()
            if low.startswith("client protocol "):
                reply = "SERVER PROTOCOL 2\n"
            elif low.startswith("timeout "):
                reply = "OK\n"
            elif low.startswith("set format ") and form == "json":
                wanted, reply = low.split()[-1], "OK\n"
            elif low in ("status", "verbose status"):
                stream.write((as_json() if wanted == "json" else as_text()).encode())
                stream.flush()
                return
            else:
                reply = f"ERROR: Unknown command {line}\n"
            stream.write(reply.encode())
            stream.flush()


def connect() -> tuple[socket.socket, socket.socket]:
    """To the next rank, from the one before."""
    server = socket.create_server((HOSTS[RANK], DATA + RANK))
    after = (RANK + 1) % WORLD
    while True:
        try:
            to = socket.create_connection((HOSTS[after], DATA + after), timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    to.settimeout(None)
    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    came, _ = server.accept()
    return to, came


def for_ever() -> None:
    """What is waited for never comes."""
    while True:
        select.select([], [], [], 3600)


def turn(to: socket.socket, came: socket.socket, size: int) -> None:
    """Pass a chunk to the next rank while one comes from the one before."""
    sender = threading.Thread(target=send, args=(to, bytes(size)), daemon=True)
    sender.start()
    while size:
        size -= len(receive(came, min(size, 1 << 20)))
    sender.join()


def in_step(to: socket.socket, came: socket.socket) -> None:
    """A token twice round the ring: nobody leaves an operation that somebody has not entered."""
    for _ in range(2):
        if RANK == 0:
            send(to, b"t")
        receive(came, 1)
        if RANK != 0:
            send(to, b"t")


def receive(came: socket.socket, size: int) -> bytes:
    try:
        got = came.recv(size)
    except OSError:
        got = b""
    if not got:
        for_ever()
    return got


def send(to: socket.socket, data: bytes) -> None:
    try:
        to.sendall(data)
    except OSError:
        for_ever()


def fault(step: int) -> None:
    """What goes wrong."""
    if step != int(STEP):
        return
    if KIND == "extra":
        # One rank calls once more what all others are done with.
        counts[0]["AllReduce"] += int(WHO) == RANK
        for_ever()
    if int(WHO) != RANK:
        return
    if KIND == "behind":
        time.sleep(100000)
    elif KIND == "spin":
        while True:
            pass
    elif KIND == "wrong":
        counts[0]["AllGather"] += 1
        for_ever()
    elif KIND == "disk":
        with open(TEXT, "ab", buffering=0) as stream:
            while True:
                try:
                    stream.write(bytes(1 << 16))
                except OSError:
                    time.sleep(0.5)
    elif KIND == "memory":
        hold = []
        while True:
            hold.append(bytearray(b"x" * (1 << 22)))
    elif KIND == "exit":
        os._exit(1)


def main() -> None:
    threading.Thread(target=serve_counts, daemon=True).start()
    form = os.environ.get("RING_RAS", "json")
    if form != "off" and os.environ.get("LOCAL_RANK", "0") == "0":
        threading.Thread(target=serve_ras, args=(form,), daemon=True).start()
    if KIND == "compute":
        # A fifth of a CPU: many of these share the machine.
        while True:
            end = time.process_time() + 0.02
            while time.process_time() < end:
                pass
            time.sleep(0.08)
    to, came = connect()
    in_step(to, came)
    own["init"] = READY
    step = 0
    while True:
        step += 1
        fault(step)
        counts[0]["AllReduce"] += 1
        turn(to, came, CHUNK)
        in_step(to, came)
        if step % 5 == 0:
            counts[1]["AllGather"] += 1
            sys.stdout.write(f"step {step}\n")
            sys.stdout.flush()
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
