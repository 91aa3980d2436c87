for p in "$@"; do echo "stack $p"
  if command -v py-spy >/dev/null; then timeout 8 py-spy dump --nonblocking --pid "$p"
  elif command -v gdb >/dev/null; then timeout 8 gdb -p "$p" -batch -ex 'thread apply all bt 12'
  else cat "/proc/$p/stack"; fi; done | head -c 1000000
