#!/bin/sh
# Prolog=/etc/slurm/busbw/prolog.sh, and Epilog: anything but 0 drains the node, and the job is queued again.
PATH=/opt/busbw/bin:$PATH
busbw check --local --framework nhc --profile "${BUSBW_PROFILE:-infiniband}" >&2 || exit 1
