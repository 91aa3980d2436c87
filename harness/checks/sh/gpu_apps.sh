# Processes that use a GPU, with user and name.

o=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,nounits)
s=$?
echo "$o"
echo "$o" | while IFS=", " read -r _ p _; do
  [ -r /proc/$p/comm ] || continue
  read -r c </proc/$p/comm
  echo "owner $p $(stat -c %U /proc/$p) $c"
done
exit $s
