"""The script that prints the counters of a node, before and after a benchmark: one round trip over
a connection that is there already.

POSIX sh, reads only. What the kernel has as files is read by one `grep` over all of them, so that a
node with 16 ports costs a few processes. `ethtool -S` and the PCI Express errors are cut to what
matters and is not 0, on the node: a thousand lines per interface would otherwise travel with every
case. Written against Linux 5.4 to 6.18, mlx5, EFA and the NVIDIA drivers 450 to 580.
`busbw.parsers.tools.counters` reads it.
"""

from __future__ import annotations

from busbw.model import Command

_SCRIPT = """\
LC_ALL=C; export LC_ALL
if command -v timeout >/dev/null 2>&1; then T='timeout -k 1 5'; else T=; fi
read -r up rest </proc/uptime; echo "== time $up"
echo '== rdma'
if cd /sys/class/infiniband 2>/dev/null; then
  $T grep -sH '' */ports/*/counters/* */ports/*/hw_counters/* */hw_counters/* */ports/*/link_layer */ports/*/gid_attrs/ndevs/0
  [ $? -ge 124 ] && echo '== problem rdma'
fi
echo '== net'; cd /sys/class/net && $T grep -sH '' */carrier_down_count
echo '== dev'; cat /proc/net/dev
echo '== tcp'; cat /proc/net/snmp /proc/net/netstat
names='(rx|tx)_(prio[0-7]_|global_pause|pause|discard|drop|err|ecn|cnp|.*_phy|pci_|out_of|oversize|steer)'
names="$names|[a-z_]*(storm|link_down|pci_|module_|allowance|retrans|discard|roce|timeout)"
if command -v ethtool >/dev/null 2>&1; then
  for i in *; do
    [ -e "$i/device" ] || continue
    found=$($T ethtool -S "$i" 2>&1); echo "== ethtool $i $?"
    printf '%s\\n' "$found" | grep -E "^ *($names)[^:]*: *[1-9]"
  done
fi
set -- /sys/bus/pci/devices/*/aer_dev_correctable
if [ -e "$1" ]; then
  echo "== aer $#"
  $T grep -sHE 'TOTAL_ERR_[A-Z]+ [1-9]' "$@" /sys/bus/pci/devices/*/aer_dev_nonfatal /sys/bus/pci/devices/*/aer_dev_fatal
fi
if [ -n "$GPUS" ] && command -v nvidia-smi >/dev/null 2>&1; then
  echo '== nvlink'; $T nvidia-smi nvlink -e 2>&1; echo "== ended nvlink $?"
  echo '== gpu'; $T nvidia-smi -q -d PERFORMANCE,ECC 2>&1; echo "== ended gpu $?"
fi
echo '== end'
"""
LIMIT_S = 30.0
"""Of the whole script: four tools at 5 s each, and the waits for what no signal ends."""


def snapshot(store: str, *, gpus: bool = True) -> Command:
    """The script as one command; its output is kept as `raw/<store>`. `gpus=False` leaves out
    nvidia-smi, which takes longer than all the rest."""
    text = f"GPUS={'1' if gpus else ''}\n{_SCRIPT}"
    return Command(
        ("sh", "-s"), stdin=text.encode(), timeout_s=LIMIT_S, label="counters", store=store
    )
