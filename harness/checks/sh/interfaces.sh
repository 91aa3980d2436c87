# State of every network interface, and which have the default route.

for d in /sys/class/net/*; do
  o=
  c=
  read -r o <$d/operstate
  read -r c <$d/carrier
  echo "net ${d##*/} operstate ${o:--} carrier ${c:--} rx - tx -"
done 2>/dev/null
while read -r i d _; do
  case $d in 00000000) echo default $i ;; esac
done </proc/net/route
:
