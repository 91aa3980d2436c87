# Facts of the operating system as NAME=VALUE.

r() {
  v=
  [ -r $2 ] && read -r v <$2
  echo $1=$v
}
k=/proc/sys/kernel
r kernel $k/osrelease
r numa_balancing $k/numa_balancing
r loadavg /proc/loadavg
r psi_cpu /proc/pressure/cpu
for p in memory io; do
  v=
  [ -r /proc/pressure/$p ] && {
    read -r _
    read -r v
  } </proc/pressure/$p
  echo psi_$p=$v
done
r cpus /sys/devices/system/cpu/online
while read -r n v; do
  case $n in Cpus_allowed_list:) echo allowed=$v ;; esac
done </proc/self/status
IFS=: read -r _ _ v </proc/self/cgroup
r memory_max /sys/fs/cgroup$v/memory.max
g=
for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
  v=
  [ -r $f ] && read -r v <$f
  case " $g " in *" $v "*) ;; *) g="$g $v" ;; esac
done
echo governor=$g
c=
for f in /sys/devices/system/cpu/cpu0/cpuidle/state[0-9]*; do
  [ -r $f/latency ] || continue
  read -r n <$f/name
  read -r l <$f/latency
  read -r d <$f/disable
  c="$c $n:$l:$d"
done
echo cstates=$c
i=
for f in /sys/kernel/iommu_groups/*/type; do
  v=
  [ -r $f ] && read -r v <$f
  case " $i " in *" $v "*) ;; *) i="$i $v" ;; esac
done
echo iommu=$i
n=
for f in /sys/devices/system/node/node[0-9]*/cpulist; do
  v=
  [ -r $f ] && read -r v <$f
  n="$n $v"
done
echo numa=$n
r bios /sys/class/dmi/id/bios_version
r maker /sys/class/dmi/id/sys_vendor
r product /sys/class/dmi/id/product_name
while read -r n m; do
  case $n:$m in model:name*) echo "cpu_model=${m#*: }" ;; flags:*)
    echo flags=1
    case " $m " in *' hypervisor '*) echo virtual=1 ;; esac
    break
    ;;
  esac
done </proc/cpuinfo
:
