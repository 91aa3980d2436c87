# What a setup script is and does on this node: its SHA-256, and the variables of the network libraries that it sets or changes.
# Argument: the script. Other variables are not printed: they may be secrets.

script=$1
if [ ! -r "$script" ]; then
  echo absent
  exit 0
fi
echo "sha256 $(sha256sum <"$script" | cut -c 1-64)"
before=$(env)
load() {
  # shellcheck source=/dev/null
  . "$script" >&2
}
{ load; env; } | while IFS= read -r line; do
  case $line in
  NCCL_*=* | RCCL_*=* | UCX_*=* | SHARP_*=* | FI_*=* | OMPI_*=* | MLX5_*=* | CUDA_*=* | LD_LIBRARY_PATH=* | LD_PRELOAD=*) ;;
  *) continue ;;
  esac
  case "
$before
" in
  *"
$line
"*) ;;
  *) echo "set $line" ;;
  esac
done
