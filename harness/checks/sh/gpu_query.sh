# Settings, errors and limits of the GPUs. $1 = NVIDIA's fields; the last one was renamed with driver 535, and an
# unknown field ends the whole query. amd-smi before ROCm 6.2 knows fewer options.

q() { nvidia-smi --query-gpu="$1,clocks_$2_reasons.active" --format=csv,nounits; }
if amd && [ -x "$A" ]; then
  "$A" static --asic --bus --vbios --limit --driver --numa --json || "$A" static --json || exit
  "$A" metric --power --temperature --ecc --pcie --mem-usage --usage --throttle --json || exec "$A" metric --json
elif amd && command -v rocm-smi >/dev/null; then
  exec rocm-smi --showproductname --showuniqueid --showbus --showvbios --showdriverversion --showmaxpower --showtemp --showuse --json
elif amd; then
  echo "sh: amd-smi: not found" >&2
  exit 127
else
  q "$1" event || q "$1" throttle
fi
