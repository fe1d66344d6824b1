# SPDX-License-Identifier: BSD-2-Clause
"""Two forked workers walk through a list of their parent's for some seconds, and keep nothing."""
import os
import signal
import sys
import time

LINES = 600_000
PARTS = 400

samples = [f"/data/train/image-{i:08d}-of-{LINES}.jpg{' ' * 100}" for i in range(LINES)]
pids = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        for part in range(PARTS):
            for at in range(part * LINES // PARTS, (part + 1) * LINES // PARTS):
                sample = samples[at]  # one more reference, for a moment
            time.sleep(0.01)
        time.sleep(60)
        os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.readline()
for pid in pids:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
