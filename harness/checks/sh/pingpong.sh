# fi_pingpong over libfabric's provider $1: first within this node (port $2), then to NODE $3 at
# ADDRESS $4 (port $5; "-" = to nobody), while it answers another node at port $6. It names each try,
# its exit status, whether its TCP connection for control was made, and its last words.

PATH=$PATH:/opt/amazon/efa/bin
FI_EFA_ENABLE_SHM_TRANSFER=0
export PATH FI_EFA_ENABLE_SHM_TRANSFER
command -v fi_pingpong >/dev/null 2>&1 || {
  echo "no fi_pingpong" >&2
  exit 127
}
provider=$1

run() { # SECONDS OPTION…
  seconds=$1
  shift
  timeout -k 2 "$seconds" fi_pingpong -e rdm -p "$provider" -I 10 -S 1024 "$@" 2>&1 </dev/null
}

try() { # NAME ADDRESS PORT; the server may still be on its way up
  for _ in 1 2 3 4 5 6 7 8; do
    said=$(run 8 -v -P "$3" "$2")
    status=$?
    case $said in
    *'failed to connect: Connection refused'*) sleep 1 ;;
    *) break ;;
    esac
  done
  control=no
  case $said in *'CLIENT: connected'*) control=yes ;; esac
  echo "pingpong $1 $2 status $status control $control" \
    "$(echo "$said" | grep -e '^.error. ' -e ', ret=' | tail -n 1)"
}

serve() { # NAME PORT; a client's words do not say why its server ended
  run 30 -B "$2" | grep -e '^.error. ' -e ', ret=' | sed "s/^/server $1 /"
}

serve between "$6" &
serve within "$2" &
try "$(uname -n)" 127.0.0.1 "$2"
[ "$3" = - ] || try "$3" "$4" "$5"
wait
