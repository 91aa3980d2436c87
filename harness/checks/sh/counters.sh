# The counters of a node, before and after a benchmark. $GPUS = 1: of its GPUs too.
# What the kernel has as files is read by one `grep` over all of them.

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
# Who runs or waits for a CPU: on the machine, and of the processes that are seen from here.
read -r _ _ _ tasks _ </proc/loadavg
echo '== cpu'; echo "tasks ${tasks%%/*} own $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') R ') cpus $(getconf _NPROCESSORS_ONLN)"
# What a limit of the CPU time stopped: the control group of this session, and those above it.
set -- /dev/null
while IFS=: read -r _ names place; do
  case ",$names," in
    ,,) root=/sys/fs/cgroup; [ -d $root/unified ] && root=$root/unified ;;
    *,cpu,*) root=/sys/fs/cgroup/$names; [ -d "$root" ] || root=/sys/fs/cgroup/cpu ;;
    *) continue ;;
  esac
  place=${place%/}/
  while [ -n "$place" ]; do
    place=${place%/*}; set -- "$@" "$root$place/cpu.stat"
  done
done 2>/dev/null </proc/self/cgroup
$T grep -sHE '^nr_(periods|throttled) ' "$@"
echo '== tcp'; cat /proc/net/snmp /proc/net/netstat
names='(rx|tx)_(prio[0-7]_|global_pause|pause|discard|drop|err|ecn|cnp|.*_phy|pci_|out_of|oversize|steer)'
names="$names|[a-z_]*(storm|link_down|pci_|module_|allowance|retrans|discard|roce|timeout)"
if command -v ethtool >/dev/null 2>&1; then
  for i in *; do
    [ -e "$i/device" ] || continue
    found=$($T ethtool -S "$i" 2>&1); echo "== ethtool $i $?"
    printf '%s\n' "$found" | grep -E "^ *($names)[^:]*: *[1-9]"
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
