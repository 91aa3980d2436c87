"""Numbers of a contract that no hardware can give, said before anything is contacted.

What the contract, or else the inventory, specifies of a node bounds them; where neither names GPUs
and NICs, the fastest GPUs that the tables know do.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from busbw import playbook
from busbw.errors import PlaybookError, UsageError
from busbw.fabrics.profiles import intra_node_fabrics, network_fabrics
from busbw.model import Limit
from busbw.model.requirement import Requirement
from busbw.parsers.expect import baselines, cluster, hardware
from busbw.parsers.expect.cluster import Question
from busbw.playbook import Playbook
from busbw.playbook.contract import Contract
from busbw.playbook.specification import requirements
from busbw.units import format_size


def refuse_impossible(book: Playbook, nodes: int, inventory: Iterable[Requirement]) -> None:
    """`nodes`: those of the run, where the contract names no number; `inventory`: what it specifies of
    every node.

    Raises:
        PlaybookError: a number is above what physics allows; all of them at once.
    """
    contract = book.contract
    if contract is None:
        return
    _refuse_unmeasured(book, contract)
    collectives = {case.id: str(case.collective) for case in book.cases}
    wanted = (*inventory, *requirements(contract.specification, "contract"))
    specified = {each.key: each.value for each in wanted if not each.at_least}
    found = []
    for criterion in contract.criteria:
        if criterion.busbw_gb_s is None or criterion.case not in collectives:
            continue
        limit = _limit(collectives[criterion.case], contract.nodes or nodes, specified)
        why = None if limit is None else baselines.implausible(criterion.busbw_gb_s, limit)
        if why is not None:
            found.append(f"criterion {criterion.id} ({criterion.case}): {why}")
    if found:
        raise PlaybookError(
            "no cluster can meet this contract; nothing was contacted",
            seen="\n".join(found),
            next_step=(
                "ask for the node count, the algorithm and the unit behind the number: Gb/s are eight"
                " times GB/s; busbw expect --contract GB_S checks one"
            ),
        )


_SHORTEST_US = 1.0
"""No collective is shorter: launching any kernel takes longer."""


def _refuse_unmeasured(book: Playbook, contract: Contract) -> None:
    """Refuse what would be *not measured* or *not accepted* after hours, whatever the cluster gives."""
    found = []
    sizes = {case.id: case.sizes.planned() for case in book.cases}
    for each in contract.criteria:
        name = f"criterion {each.id} ({each.case})"
        measured = sizes.get(each.case, (each.size,))
        if each.size not in measured:
            known = ", ".join(map(format_size, measured[:12])) + ", …" * (len(measured) > 12)
            found.append(f"{name}: {format_size(each.size)} is not among its sizes: {known}")
        if each.time_us is not None and each.time_us < _SHORTEST_US:
            found.append(f"{name}: no collective takes {each.time_us:g} µs: is it ms, or s?")
    if found:
        raise PlaybookError(
            f"playbook {book.name} cannot answer this contract; nothing was contacted",
            seen="\n".join(found),
            next_step=f"correct the contract, or add its sizes to the playbook: {_copy(book)}",
        )


def _copy(book: Playbook) -> str:
    """The commands that make a playbook of one's own."""
    shipped = playbook.shipped(book.name)
    if shipped is None:
        return f"its `sizes:` in {book.name}.yaml"
    return f"cp {shlex.quote(str(shipped))} mine.yaml; busbw run ./mine.yaml --contract FILE"


def _limit(collective: str, nodes: int, specified: Mapping[str, str]) -> Limit | None:
    """The highest limit of all hardware that fits; None = the collective has none."""
    named = hardware.recognise_gpu(specified.get("gpu_model", ""))
    network_gb_s = None
    if "nics" in specified and "nic_rate" in specified:
        network_gb_s = float(specified["nics"]) * float(specified["nic_rate"]) / 8
    limits = []
    for gpu in hardware.GPUS if named is None else (named,):
        count = int(specified.get("gpus", gpu.gpus_per_node))
        if named is None and count != gpu.gpus_per_node:
            continue
        inside = Question(collective, 1, count * nodes, intra_node_fabrics()[0], gpu=gpu)
        question = inside
        # Without NICs, or where NVLink may span the nodes, nothing but NVLink bounds them.
        if nodes > 1 and network_gb_s is not None and gpu.pcie_generation is not None:
            question = Question(
                collective,
                nodes,
                count,
                network_fabrics()[0],
                gpu=gpu,
                network_gb_s=network_gb_s,
                sharp=True,
            )
        try:
            limits.append(cluster.answer(question).limit)
        except (UsageError, ValueError):
            continue
    return max(limits, key=lambda limit: limit.value_gb_s, default=None)
