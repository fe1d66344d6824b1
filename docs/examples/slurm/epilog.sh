#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Epilog of slurm.conf: runs as root on each node of a job, after it. Ends what prolog.sh began; the
# capture is the user's then:
#     perfx-trace merge /var/spool/perfx/4711.*.perfx -o job.perfx
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
folder=${PERFX_FOLDER:-/var/spool/perfx}
job=$SLURM_JOB_ID node=${SLURMD_NODENAME:-$(hostname -s)}
running=/run/perfx-trace/$job

case $job in
'' | *[!0-9]*) exit 0 ;;
esac
[ -f "$running" ] || exit 0
pid=
read -r pid <"$running"
rm -f "$running"
if [ -z "$pid" ]; then
	systemctl stop "perfx-job-$job.service"
# the number may have another owner by now
elif [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = perfx-trace ]; then
	kill -TERM "$pid"
	for _ in $(seq 60); do
		[ -d "/proc/$pid" ] || break
		sleep 1
	done
fi
for file in "$folder/$job.$node".*; do
	[ -f "$file" ] && chown "$SLURM_JOB_UID" "$file"
done
exit 0
