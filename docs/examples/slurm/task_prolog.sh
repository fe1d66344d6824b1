#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# TaskProlog of slurm.conf: runs as the user before each task. What it prints after "print" goes to
# the task's output, what it prints after "export" into its environment.
folder=${PERFX_FOLDER:-/var/spool/perfx}
job=$SLURM_JOB_ID node=${SLURMD_NODENAME:-$(hostname -s)}

[ -e "/run/perfx-trace/$job" ] || exit 0
echo "export PERFX_CAPTURE=$folder/$job.$node.perfx"
if [ "${SLURM_STEP_ID:-}.${SLURM_PROCID:-}" = 0.0 ]; then
	echo "print perfx-trace records this job; when it has ended:"
	echo "print perfx-trace merge $folder/$job.*.perfx -o job.perfx"
fi
exit 0
