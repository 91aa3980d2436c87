# The GPUs of the node. rocm-smi came before amd-smi.

if amd; then
  if [ -x "$A" ]; then exec "$A" list --json; fi
  if command -v rocm-smi >/dev/null; then exec rocm-smi --showproductname --showuniqueid --showbus --json; fi
  echo "sh: amd-smi: not found" >&2
  exit 127
fi
nvidia-smi -L
