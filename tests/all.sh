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
rm -f .pytest_cache/v/cache/lastfailed
"$PYTHON" -m pytest -q -rs "$@"
ended=$?
if [ $ended != 0 ]; then
  # 1 = it ran to its end and tests failed; whatever else it was, nothing is known of the tests that did not run.
  again=$([ $ended = 1 ] && "$PYTHON" tests/second_try.py)
  if [ -n "$again" ]; then
    echo "== a second try, in the lab alone =="
    echo "$again"
    # One argument a line: ids of parametrized tests may hold spaces.
    if echo "$again" | tr '\n' '\0' | xargs -0 "$PYTHON" -m pytest -q -rs; then
      echo "$again" | sed 's/^/test: failed once, then passed: /'
    else
      failed=1
    fi
  else
    failed=1
  fi
fi
exit $failed
