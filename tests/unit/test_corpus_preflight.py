"""Outputs of real nodes, read as `busbw read FILE` reads them: the facts, check ids and statuses that
somebody read off by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from busbw import intake
from busbw.cli.read_forms import judged
from busbw.cli.read_texts import read_one
from busbw.model import worst
from busbw.parsers.logs import node_tools
from busbw.parsers.tools.ibverbs import VerbsInfo

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {CORPUS}"),
]


def _smi(records: tuple[Any, ...]) -> dict[str, Any]:
    (table,) = records
    first = table.gpus[0]
    on = {True: "On", False: "Off", None: None}
    facts = {
        "driver": table.driver,
        "cuda": table.cuda,
        "gpus": len(table.gpus),
        "gpus_shown": len(table.gpus),
        "gpu_name": first.model,
        "persistence_mode": on[first.persistence],
        "mem_total_mib": first.memory_total_mib,
        "ecc_volatile_uncorr": first.ecc_uncorrected_volatile,
        "power_w": first.power_w,
        "power_cap_w": first.power_cap_w,
    }
    return facts if table.processes is None else facts | {"processes": len(table.processes)}


def _pkeys(records: tuple[Any, ...]) -> dict[str, Any]:
    return {f"pkey{k.index}": f"{k.key:#06x}" for k in records} | {
        f"pkey{k.index}_full_member": k.full_member for k in records
    }


def _devices(records: tuple[Any, ...]) -> dict[str, Any]:
    (listed,) = records
    return {
        "devices": [d.name for d in listed.devices],
        "node_guid": {d.name: d.node_guid for d in listed.devices},
    }


def _devinfo(records: tuple[Any, ...]) -> dict[str, Any]:
    infos = [r for r in records if isinstance(r, VerbsInfo)]
    first = infos[0]
    port = first.ports[0]
    nodes = [r for r in records if hasattr(r, "uverbs")]
    return {
        "hca": first.name,
        "hcas": [info.name for info in infos],
        "fw": first.firmware,
        "vendor_part_id": first.vendor_part_id,
        "state": port.state,
        "port_state": port.state,
        "max_mtu": port.max_mtu,
        "active_mtu": port.active_mtu,
        "sm_lid": port.sm_lid,
        "port_lid": port.port_lid,
        "link_layer": port.link_layer,
        "transport": first.transport,
        "vendor_id": first.vendor_id,
        "hw_ver": first.hardware,
        "node_guid_zero": set(first.node_guid) <= {"0", ":"},
        "uverbs": nodes[0].uverbs if nodes else None,
    }


def _links(records: tuple[Any, ...]) -> dict[str, Any]:
    said = {
        f"{k.device}/{k.port}": {
            "state": k.state,
            "physical_state": k.physical_state,
            "netdev": k.netdev,
        }
        for k in records
    }
    return {"links": said}


def _topology(records: tuple[Any, ...]) -> dict[str, Any]:
    (matrix,) = records
    rows = {row.name: row for row in matrix.rows}
    facts: dict[str, Any] = {
        "gpus": len(matrix.gpus),
        "nics": len(matrix.nics),
        "nvlink": matrix.nvlinks[0],
        "numa_nodes": len(matrix.numa_nodes),
        "gpu0_nic0": rows["GPU0"].path("NIC0"),
    }
    facts |= {f"{name.lower()}_pix": list(row.nics_at("PIX")) for name, row in rows.items()}
    far = {word for column, word in rows["GPU4"].paths if column.startswith("NIC")}
    torn = [row.name for row in matrix.rows if row.torn]
    return facts | {"gpu4_nics": "/".join(sorted(far)), "malformed_row": torn[0] if torn else None}


def _gids(records: tuple[Any, ...]) -> dict[str, Any]:
    return {
        g.device: {"rocev2_ipv4_index": g.index, "ipv4": g.ipv4, "netdev": g.netdev}
        for g in records
        if g.routable
    }


def _qos(records: tuple[Any, ...]) -> dict[str, Any]:
    (qos,) = records
    return {
        "dcbx": qos.dcbx,
        "trust": qos.trust,
        "pfc_enabled": list(qos.pfc_priorities),
        "cable_len": qos.cable_length_m,
        "dscp26_prio": dict(qos.dscp_priorities)[26],
    }


def _ibstat(records: tuple[Any, ...]) -> dict[str, Any]:
    (listed,) = records
    first = listed.devices[0]
    port = first.ports[0]
    facts = {
        "ca": first.name,
        "ca_type": first.ca_type,
        "fw": first.firmware,
        "state": port.state,
        "phys": port.physical_state,
        "rate": port.rate_gbit_s,
        "link_layer": port.link_layer,
        "missing": listed.missing,
        # Not in the text: what `ibpanic` ends with.
        "exit_code": 255 if listed.panic else 0,
    }
    each = {
        d.name: {
            "state": d.ports[0].state,
            "rate": d.ports[0].rate_gbit_s,
            "lid": d.ports[0].base_lid,
        }
        for d in listed.devices
    }
    return facts | each


def _providers(records: tuple[Any, ...]) -> dict[str, Any]:
    return {
        "providers": len(records),
        "providers_shown": len(records),
        "fabric": records[0].fabric,
        "domains": [p.domain for p in records],
        "version": records[0].version,
        "types": [p.endpoint for p in records],
    }


def _ofed(records: tuple[Any, ...]) -> dict[str, Any]:
    (release,) = records
    return {"ofed": release.name, "kernel_dkms": release.kernel_package}


def _nvlink(records: tuple[Any, ...]) -> dict[str, Any]:
    errors = records[0].errors
    totals = {name: sum(getattr(e, name) for e in errors) for name in ("replay", "recovery", "crc")}
    return {"gpu0": records[0].model, "links_listed": [e.link for e in errors], **totals}


def _pci(records: tuple[Any, ...]) -> dict[str, Any]:
    (link,) = records
    return {"speed": f"{link.speed_gt_s:.1f} GT/s PCIe", "width": link.width}


def _acs(records: tuple[Any, ...]) -> dict[str, Any]:
    (bridge,) = records
    return {"bdf": bridge.address, "acs_enabled": bridge.redirects, "ACSCtl": bridge.control}


def _fec(records: tuple[Any, ...]) -> dict[str, Any]:
    (fec,) = records
    return {"interface": fec.interface, "configured": fec.configured, "active": fec.active}


def _dcgm(records: tuple[Any, ...]) -> dict[str, Any]:
    (test,) = records
    words = test.warning.split()
    return {
        test.name.lower().replace(" ", "_") + "_test": test.result,
        "gpu": int(words[1]),
        "api": words[words.index("API") + 1],
    }


FACTS: dict[str, Callable[[tuple[Any, ...]], dict[str, Any]]] = {
    "001": _smi,
    "003": _pkeys,
    "005": _devices,
    "006": _devinfo,
    "007": _links,
    "008": _devinfo,
    "011": _topology,
    "013": _topology,
    "016": _gids,
    "017": _qos,
    "020": _ibstat,
    "022": _providers,
    "023": _providers,
    "024": _devinfo,
    "025": _ibstat,
    "029": _pci,
    "031": _ofed,
    "032": _ofed,
    "033": _ofed,
    "036": _nvlink,
    "037": _acs,
    "040": _fec,
    "042": _smi,
    "043": _dcgm,
}


def problems(row: dict[str, Any]) -> list[str]:
    """What is not as the index says."""
    (source,) = intake.expand([str(CORPUS / row["file"])])
    expected = row["expected"]
    documents = [each for each in read_one(source).documents if each.kind == node_tools.KIND]
    if not documents:
        return ["not read as the output of a node's tool"]
    facts = FACTS[row["id"].removeprefix("pf-")](documents[0].records)
    wrong = [
        f"{key}: {facts.get(key)!r}, not {value!r}"
        for key, value in expected["facts"].items()
        if facts.get(key) != value
    ]
    results = judged(documents[0])
    wrong += [
        f"check {check_id} says nothing"
        for check_id in set(expected["check_ids"]) - {result.check_id for result in results}
    ]
    status = worst(tuple(result.status for result in results)).value.lower()
    allowed = (expected["status"], *expected.get("status_also_ok", ()))
    return wrong + ([] if status in allowed else [f"status {status}, not {' or '.join(allowed)}"])


def test_every_output_gives_its_facts_checks_and_status(capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    rows = [
        r
        for r in cast("list[dict[str, Any]]", yaml.safe_load((CORPUS / "index.yaml").read_text()))
        if r["kind"] == "preflight"
    ]
    wrong = {row["id"]: found for row in rows if (found := problems(row))}
    with capsys.disabled():
        print(f"\npreflight outputs right: {len(rows) - len(wrong)} of {len(rows)}")
        for name, found in wrong.items():
            print(f"  {name}: {'; '.join(found)}")
    assert len(rows) == len(FACTS)
    assert wrong == {}
