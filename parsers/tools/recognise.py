"""From any text of a node to the records in it: every parser of this package is tried, and one text
may hold several outputs.

For texts that people hand in (a ticket's attachment, a forum post). The preflight script knows
which section it asked and needs none of this.
"""

from __future__ import annotations

from busbw.parsers.tools import (
    dcgm,
    ethtool,
    fi_info,
    gids,
    ibstat,
    ibverbs,
    iperf3,
    kernel_log,
    mlnx_qos,
    nvbandwidth,
    nvidia_smi,
    ofed,
    os_facts,
    pci,
    perftest,
    rdma_link,
    rdma_sysfs,
)


def read(text: str) -> tuple[object, ...]:
    """Every record found, in a fixed order; () = nothing known is in the text.

    >>> read("FEC parameters for eth0:\\nActive FEC encoding: RS\\n")
    (Fec(interface='eth0', configured=None, active='RS'),)
    """
    whole = (
        ibverbs.parse_devices(text, ""),
        ibstat.parse(text),
        ofed.parse_release(text),
        nvidia_smi.parse_table(text),
        nvidia_smi.parse_topology(text),
        mlnx_qos.parse(text),
        ethtool.parse_fec(text),
        pci.parse_link(text),
        os_facts.parse_device_nodes(text) if "/dev/infiniband" in text else None,
        perftest.parse(text),
        nvbandwidth.parse(text),
        iperf3.parse(text) if text.lstrip()[:1] == "{" else None,
    )
    several: tuple[tuple[object, ...], ...] = (
        ibverbs.parse_devinfo(text),
        rdma_link.parse(text),
        gids.parse(text),
        rdma_sysfs.parse_pkeys(text),
        fi_info.parse(text),
        nvidia_smi.parse_nvlink(text),
        pci.parse_acs(text) if "ACSC" in text else (),
        dcgm.parse_diag(text),
        nvidia_smi.parse_list(text) if "Link 0: " not in text else (),  # nvlink's own heads
        nvidia_smi.parse_query(text) or (),
        kernel_log.parse(text),
    )
    return (
        *(record for record in whole if record is not None),
        *(group for group in several if group),
    )
