#!/bin/sh
# make test: what is essential of each subject, and what could not run and why. CI calls it.
# make test-all (`tests/all.sh all`): the matrices and the long labs too.
set -u
PYTHON=${PYTHON:-python3}
failed=0
started=$(date +%s)

selection="not long"
if [ "${1:-}" = all ]; then
  selection="long or not long"
  shift
fi

missing=$("$PYTHON" -m busbw.lab.requirements all)
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "test: installing what the lab needs: $missing"
    apt-get update -qq && sh -c "DEBIAN_FRONTEND=noninteractive $missing" >/dev/null || failed=1
  else
    echo "test: the lab's packages are missing; as root: $missing"
  fi
fi
for package in chromium shellcheck; do
  if ! command -v $package >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "test: installing $package"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $package >/dev/null 2>&1 ||
      echo "test: $package could not be installed"
  fi
done

# Of Debian's package prometheus the tests need promtool, and no server.
if ! command -v promtool >/dev/null && [ ! -x build/prometheus/usr/bin/promtool ] && command -v apt-get >/dev/null; then
  echo "test: unpacking promtool"
  (mkdir -p build/prometheus && cd build/prometheus && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb) >/dev/null 2>&1 ||
    echo "test: promtool could not be unpacked"
fi

for package in kubernetes:kubernetes-validate==1.37.0 ansible:ansible-core==2.19.14; do
  [ -d "build/${package%%:*}" ] || "$PYTHON" -m pip install --quiet --disable-pip-version-check --target "build/${package%%:*}" "${package#*:}" ||
    echo "test: ${package#*:} could not be fetched"
done

echo "== lint and types =="
"$PYTHON" -m ruff check . && "$PYTHON" -m ruff format --check . || failed=1
rm -rf build/types build/lib
"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --target build/types . || failed=1
MYPYPATH=build/types "$PYTHON" -m mypy --strict -p busbw || failed=1

# -rs: every test that could not run here says why. A file's tests stay with one worker: they share labs.
run() {
  "$PYTHON" -m pytest -q -rs --dist loadfile -m "$selection" "$@"
}
if [ $# -gt 0 ]; then
  run "$@" || failed=1
else
  # The first is bound by the CPUs, the second by waiting for nodes: its workers wait side by side.
  echo "== tests without a lab =="
  run -n 2 --ignore=tests/lab --ignore=tests/browser tests || failed=1
  echo "== the lab and the browser =="
  run -n "${LAB_WORKERS:-3}" tests/lab tests/browser || failed=1
fi
echo "test: $(($(date +%s) - started)) s"
exit $failed
