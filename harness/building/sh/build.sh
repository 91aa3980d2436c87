# Builds the sources on standard input in $1, or finds a build there that the controller knows. $2 = home of NCCL,
# $3 = its library, $4 = the loader's path, $5 = digests of known builds; the rest = arguments of make.

dir=$1; part="$dir.part.$$"; home=$2; library=$3; path=$4; known=$5; shift 5
whole() { d=$(cd "$dir/build" 2>/dev/null && hashes 2>/dev/null | digest) && among "$d" "$known"; }
if whole; then cat >/dev/null; echo "reused $dir"; exit 0; fi
# A compiler that outlives its make may write on for a moment.
forget() { i=0; until rm -rf "$part" 2>/dev/null || [ $i -ge 20 ]; do i=$((i + 1)); sleep 0.5; done; }
trap 'forget; exit 143' HUP INT TERM
mkdir -p "$part" && tar -xzf - -C "$part" || { forget; exit 70; }
cd "$part" || exit 70
if [ -n "$library" ]; then
  # One layout whatever the node's: a wheel has no libnccl.so, Debian has its libraries elsewhere than its headers.
  mkdir -p .nccl/lib && ln -s "$home/include" .nccl/include && ln -s "$library" .nccl/lib/libnccl.so.2 && ln -s libnccl.so.2 .nccl/lib/libnccl.so
  set -- "$@" "NCCL_HOME=$part/.nccl" "-j$(getconf _NPROCESSORS_ONLN || echo 2)"
fi
[ -z "$path" ] || export LD_RUN_PATH="$path"
make "$@"; status=$?
if [ $status -eq 0 ] && [ -f busbw-shim/Makefile ]; then make -C busbw-shim "$@" "BUILDDIR=$part/build"; status=$?; fi
if [ $status -ne 0 ]; then forget; exit $status; fi
# What is there and not known was cut off, changed, or built by somebody else.
if [ -e "$dir" ]; then echo "replaced $dir"; rm -rf "$dir"; fi
mv "$part" "$dir"
echo "built $dir"
