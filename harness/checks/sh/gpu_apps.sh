# Processes that use a GPU, with user and name.

if amd; then
  o=$("$A" process --json)
  s=$?
  p=$(echo "$o" | sed -n 's/.*"pid": *\([0-9][0-9]*\).*/\1/p')
else
  o=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,nounits)
  s=$?
  p=$(echo "$o" | while IFS=", " read -r _ p _; do echo "$p"; done)
fi
echo "$o"
for p in $p; do
  [ -r "/proc/$p/comm" ] || continue
  read -r c <"/proc/$p/comm"
  echo "owner $p $(stat -c %U "/proc/$p") $c"
done
exit $s
