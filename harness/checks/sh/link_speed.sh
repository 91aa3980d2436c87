# Speed and MTU of interfaces with hardware below them.

for d in /sys/class/net/*; do
  [ -e $d/device ] || {
    set -- $d/lower_*
    [ -e $1 ]
  } || continue
  s=-
  m=-
  read -r s <$d/speed
  read -r m <$d/mtu
  echo "link ${d##*/} ${s:--} ${m:--}"
done 2>/dev/null
:
