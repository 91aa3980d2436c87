# What shows the fabric: the maker of the machine, and the networking software of the clouds.

r() {
  v=
  [ -r $2 ] && read -r v <$2
  echo $1=$v
}
r vendor /sys/class/dmi/id/sys_vendor
r product /sys/class/dmi/id/product_name
for p in gib:/usr/local/gib tcpxo:/var/lib/tcpxo tcpx:/var/lib/tcpx efa:/opt/amazon/efa; do
  [ -d ${p#*:} ] && echo mark_${p%%:*}=${p#*:}
done
:
