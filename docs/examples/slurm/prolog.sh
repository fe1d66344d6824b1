#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Prolog of slurm.conf: runs as root on each node of a job, before it. A job that asks for it,
#     sbatch --comment=perfx job.sh
# is recorded on all its nodes by a flight recorder: the last minute, until epilog.sh ends it.
# Whatever goes wrong here, it returns 0: a Prolog that fails drains the node.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
perfx=${PERFX_TRACE:-perfx-trace}
folder=${PERFX_FOLDER:-/var/spool/perfx} # on a file system that all nodes share, to merge there
flight=${PERFX_FLIGHT:-60s}
job=$SLURM_JOB_ID node=${SLURMD_NODENAME:-$(hostname -s)}
running=/run/perfx-trace/$job # for epilog.sh and task_prolog.sh
capture=$folder/$job.$node.perfx log=$folder/$job.$node.log

case ,${SLURM_JOB_COMMENT:-}, in
*,perfx,*) ;;
*) exit 0 ;;
esac
case $job in
'' | *[!0-9]*) exit 0 ;;
esac
command -v "$perfx" >/dev/null || exit 0
# a capture is of all jobs on the node: it is root's until epilog.sh gives it to the user
umask 077
mkdir -p "$folder" /run/perfx-trace && chmod 711 "$folder" /run/perfx-trace || exit 0

set -- "$perfx" record -a --flight "$flight" -o "$capture"
if [ -d /run/systemd/system ]; then
	systemd-run --quiet --collect --unit="perfx-job-$job" --property=KillSignal=SIGINT \
		--property=UMask=0077 --property=TimeoutStopSec=60 "$@" && : >"$running"
else
	setsid "$@" >"$log" 2>&1 </dev/null &
	echo $! >"$running"
	# slurmd kills what is still in this script's process group when it ends
	for _ in $(seq 20); do
		[ -s "$log" ] && break
		sleep 1
	done
fi
exit 0
