#!/bin/sh
# make demo: a lab of four nodes, a healthy day-one run, then the same with one node's link slowed. Prints both verdicts and both reports.
# The lab is taken down at the end, also after Ctrl-C or a failure.
set -u
BUSBW=${BUSBW:-busbw}
PYTHON=${PYTHON:-python3}
NAME=demo
OUT=${OUT:-runs}

missing=$("$PYTHON" -m busbw.lab.requirements) || {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "demo: installing what is missing: $missing"
    apt-get update -qq && sh -c "DEBIAN_FRONTEND=noninteractive $missing" >/tmp/busbw-demo-apt.$$ 2>&1 || {
      cat /tmp/busbw-demo-apt.$$; rm -f /tmp/busbw-demo-apt.$$; exit 3
    }
    rm -f /tmp/busbw-demo-apt.$$
  else
    echo "demo: system packages are missing; as root: $missing"
    exit 3
  fi
}

down() { "$BUSBW" lab down --name $NAME >/dev/null 2>&1; }
trap 'down; exit 130' INT TERM
trap down EXIT
down

"$BUSBW" lab up -n 4 --name $NAME || exit 3
echo
echo "== a healthy cluster =="
"$BUSBW" run -i lab:$NAME --out "$OUT"
healthy=$?
first=$(readlink -f "$OUT/latest")
echo
echo "== the same cluster, one node's link slowed =="
"$BUSBW" lab fault --name $NAME slow node3 40% || exit 3
"$BUSBW" run -i lab:$NAME --out "$OUT"
faulty=$?
second=$(readlink -f "$OUT/latest")
echo
echo "healthy: exit $healthy, $("$BUSBW" report -q "$first")"
echo "         report $first/report.html"
echo "slowed:  exit $faulty, $("$BUSBW" report -q "$second")"
echo "         report $second/report.html"
if [ $healthy -ne 0 ] || [ $faulty -ne 1 ]; then
  echo "demo: expected exit 0 for the healthy and 1 for the slowed cluster"
  exit 1
fi
