# SPDX-License-Identifier: BSD-2-Clause
"""A program that waits for a CPU because others have them all: the report says whose they were."""
import os
import subprocess
import sys
import time

import pytest
from conftest import Tracer

pytestmark = pytest.mark.alone

BUSY = [sys.executable, "-c", "while True: pass"]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_other_programs_have_the_cpus():
    busy = [subprocess.Popen(BUSY) for _ in range(2 * os.cpu_count() + 1)]
    target, others = busy[0], busy[1:]
    try:
        tracer = Tracer(target.pid, "-F", "libc.so*:memcpy", "--no-calibrate")
        before = sum(cpu_seconds(other.pid) for other in others)
        time.sleep(1)
        used = sum(cpu_seconds(other.pid) for other in others) - before
        report = tracer.stop()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    host = report["capture"]["host"]
    # a virtual machine's two accounts, of a CPU's ticks and of a process's time, differ by what is stolen
    assert host["others_cpu_ns"] >= 0.7 * used * 1e9
    assert host["busy_ns"] >= host["others_cpu_ns"]
    finding, = [f for p in report["processes"] for f in p["findings"] if f["kind"] == "CpuContention"]
    assert "other programs used" in finding["evidence"]
    assert "OMP_NUM_THREADS" not in finding["suggestion"] and finding["class"] == "contention"
