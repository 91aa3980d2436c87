# GPUs and network adapters with their PCIe links; bridges are walked upwards from each device, by
# the path its link in /sys stands for.

for d in /sys/bus/pci/devices/*; do
  v=
  c=
  read -r v <$d/vendor
  read -r c <$d/class
  case $v:$c in 0x10de:0x03* | 0x15b3:0x02* | 0x1d0f:0x02*) ;; *) continue ;; esac
  w=-
  W=-
  s=-
  S=-
  n=-
  u=
  read -r w <$d/current_link_width
  read -r W <$d/max_link_width
  read -r s _ <$d/current_link_speed
  read -r S _ <$d/max_link_speed
  read -r n <$d/numa_node
  cd -P $d || continue
  p=${PWD%/*}
  while case ${p##*/} in *:*:*.*) ;; *) false ;; esac do
    x=
    X=
    read -r x <$p/current_link_width
    read -r X <$p/max_link_width
    u="$u ${p##*/}=$x/$X"
    p=${p%/*}
  done
  echo "pci ${d##*/} $v $c width ${w:--} ${W:--} speed ${s:--} ${S:--} numa ${n:--}${u:+ under$u}"
done 2>/dev/null
:
