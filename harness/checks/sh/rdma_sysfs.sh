# RDMA devices, their ports, GIDs and P_Keys. Link-local GIDs (fe80) are left out: nothing is
# chosen among them.

[ -d /sys/class/infiniband ] || exit 0
r() {
  v=
  [ -r $2 ] && read -r v <$2 && echo $1 $v
}
for d in /sys/class/infiniband/*; do
  [ -d $d ] || continue
  n=${d##*/}
  echo rdma $n present 1
  for k in fw_ver board_id hca_type; do
    r "rdma $n $k" $d/$k
  done
  r "rdma $n numa_node" $d/device/numa_node
  for p in $d/ports/*; do
    i=${p##*/}
    for k in state phys_state rate link_layer sm_lid; do
      r "port $n $i $k" $p/$k
    done
    k=0
    while [ $k -lt 128 ]; do
      v=
      [ -r $p/pkeys/$k ] && read -r v <$p/pkeys/$k
      case $v in "" | 0x0000) break ;; esac
      echo pkey $n $i pkeys/$k $v
      k=$((k + 1))
    done
    for g in $p/gids/*; do
      x=${g##*/}
      v=
      read -r v <$g
      case $v in "" | fe80:* | 0000:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
      t=
      read -r t <$p/gid_attrs/types/$x
      echo gid $n $i $x $v $t
    done
  done
done 2>/dev/null
:
