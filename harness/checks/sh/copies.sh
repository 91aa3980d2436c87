# nvbandwidth's copies between the host and each GPU, and between the GPUs.

command -v nvbandwidth >/dev/null 2>&1 || {
  echo 'nvbandwidth: not found' >&2
  exit 127
}
for t in host_to_device_memcpy_ce device_to_host_memcpy_ce device_to_device_memcpy_read_ce; do
  nvbandwidth -t $t || exit
done
