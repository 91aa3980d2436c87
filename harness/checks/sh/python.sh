# Runs the Python program $1 with the arguments $2 and $3.

command -v python3 >/dev/null 2>&1 || {
  echo "no python3" >&2
  exit 127
}
exec python3 -c "$1" "$2" "$3"
