# Tries each "INTERFACE OWN NODE PEER" of standard input, all at once: by which interface the kernel
# leaves for PEER, whether a small packet is answered and from which hardware address, and whether
# one of the interface's MTU arrives unfragmented; where it does not, the largest that does.

LC_ALL=C
export LC_ALL

behind() { # the word behind the word $1 among the others; - = there is none
  word=$1
  shift
  while [ $# -gt 1 ]; do
    [ "$1" = "$word" ] && echo "$2" && return
    shift
  done
  echo -
}

answered() { ping -c 1 -W 1 -q "$@" -I "$i" "$peer" >/dev/null 2>&1 </dev/null; }

# 28 bytes of headers (IPv4, ICMP) are not counted by ping.
arrives() { answered -M "do" -s $(($1 - 28)); }

largest() { # of the packets that arrive: $1 bytes do, $2 do not; eight sizes between at once
  low=$1 high=$2
  while [ $((high - low)) -gt 1 ]; do
    step=$(((high - low + 7) / 8)) best=$low
    for size in $(several "$low" "$high" "$step"); do
      [ "$size" -gt "$best" ] && best=$size
    done
    low=$best
    [ $((low + step)) -lt "$high" ] && high=$((low + step))
  done
  echo "$low"
}

several() { # those that arrive of the sizes between $1 and $2, $3 apart
  size=$(($1 + $3))
  while [ "$size" -lt "$2" ]; do
    (arrives "$size" && echo "$size") &
    size=$((size + $3))
  done
  wait
}

filter() { # rp_filter: the stricter of all interfaces' and this one's
  most=-
  for name in all "$i"; do
    # Of /proc/sys, read gives the value and says that there is no end of line.
    value=
    read -r value 2>/dev/null <"/proc/sys/net/ipv4/conf/$name/rp_filter"
    [ -n "$value" ] || continue
    [ "$most" = - ] || [ "$value" -gt "$most" ] && most=$value
  done
  echo "$most"
}

try() {
  i=$1 own=$2 node=$3 peer=$4
  read -r mtu <"/sys/class/net/$i/mtu" || return
  dev='?' mac=- large=- most=-
  answered || answered
  small=$?
  if command -v ip >/dev/null 2>&1; then
    # shellcheck disable=SC2046 # the words of the answer
    dev=$(behind dev $(ip route get "$peer" from "$own" 2>/dev/null))
    # shellcheck disable=SC2046
    mac=$(behind lladdr $(ip neigh show to "$peer" dev "$i" 2>/dev/null))
  fi
  if [ "$small" = 0 ]; then
    arrives "$mtu" || arrives "$mtu"
    large=$?
    # A ping that does not know -M fails at any size.
    if [ "$large" = 1 ]; then
      if arrives 84; then most=$(largest 84 "$mtu"); else large=-; fi
    fi
  fi
  echo "rail $i $own $node $peer mtu $mtu dev $dev mac $mac filter $(filter)" \
    "small $small large $large most $most"
}

while read -r interface own node peer; do
  try "$interface" "$own" "$node" "$peer" &
done
wait
