#!/bin/sh
# HealthCheckProgram=/etc/slurm/busbw/health.sh HealthCheckInterval=600 HealthCheckNodeState=IDLE
# Slurm ignores its exit status: what fails is drained here, with its reason, unless the node is out already.
PATH=/opt/busbw/bin:$PATH
reason=$(busbw check --local --framework nhc --profile "${BUSBW_PROFILE:-infiniband}") && exit 0
node=${SLURMD_NODENAME:-$(hostname -s)}
case $(sinfo --noheader --nodes="$node" --format=%T) in
*drain* | *down*) exit 0 ;;
esac
exec scontrol update nodename="$node" state=drain reason="$reason"
