# GUIDs of RDMA devices and of their ports.

for d in /sys/class/infiniband/*; do
  [ -r $d/node_guid ] || continue
  read -r g <$d/node_guid
  echo guid ${d##*/} $g
  for p in $d/ports/*; do
    g=
    read -r g <$p/gids/0
    [ -n "$g" ] && echo guid ${d##*/} ${g#*:*:*:*:}
  done
done 2>/dev/null
:
