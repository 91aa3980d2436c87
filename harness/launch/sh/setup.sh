# How a rank starts where a setup script is sourced first. Arguments: the script, "required" or "optional", then words for env:
# -u NAME, NAME=VALUE that wins over the script, the program and its arguments. What the script prints goes to standard error.

script=$1 need=$2
shift 2
load() {
  # shellcheck source=/dev/null
  . "$script" >&2
}
if [ -r "$script" ]; then
  load || echo "busbw: $(hostname): setup script $script ended with status $?" >&2
elif [ "$need" = required ]; then
  echo "busbw: $(hostname): setup script $script cannot be read" >&2
  exit 96
fi
exec env "$@"
