#!/bin/sh
# make test: everything this machine can run, and what it could not run and why. CI calls it.
set -u
PYTHON=${PYTHON:-python3}
failed=0

missing=$("$PYTHON" -m busbw.lab.requirements all)
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "test: installing what the lab needs: $missing"
    apt-get update -qq && sh -c "DEBIAN_FRONTEND=noninteractive $missing" >/dev/null || failed=1
  else
    echo "test: the lab's packages are missing; as root: $missing"
  fi
fi
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "test: installing chromium for the tests of the report"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 || echo "test: chromium could not be installed"
fi

echo "== lint and types =="
"$PYTHON" -m ruff check . && "$PYTHON" -m ruff format --check . || failed=1
rm -rf build/types build/lib
"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --target build/types . || failed=1
MYPYPATH=build/types "$PYTHON" -m mypy --strict -p busbw || failed=1

echo "== tests =="
# -rs: every test that could not run here says why.
"$PYTHON" -m pytest -q -rs "$@" || failed=1
exit $failed
