# Whether address translation services are on, of every Mellanox adapter.

for d in /sys/bus/pci/devices/*; do
  v=
  c=
  read -r v <$d/vendor
  read -r c <$d/class
  case $v:$c in 0x15b3:0x02*) $S mstconfig -d ${d##*/} query ATS_ENABLED ;; esac
done
:
