# MTU, ARP settings and congestion notification of every Ethernet interface of an RDMA device.

r() {
  v=
  [ -r $1 ] && read -r v <$1
  l="$l ${v:--}"
}
for n in /sys/class/infiniband/*/device/net/*; do
  [ -e $n ] || continue
  i=${n##*/}
  d=${n%/device/net/*}
  l="rdmanet ${d##*/} $i mtu"
  r /sys/class/net/$i/mtu
  for k in rp_filter arp_ignore arp_announce; do
    l="$l $k"
    r /proc/sys/net/ipv4/conf/$i/$k
  done
  for k in np rp; do
    b=
    for p in 0 1 2 3 4 5 6 7; do
      v=
      f=/sys/class/net/$i/ecn/roce_$k/enable/$p
      [ -r $f ] && read -r v <$f
      b=$b$v
    done
    l="$l ecn_$k ${b:--}"
  done
  echo "$l"
done
:
