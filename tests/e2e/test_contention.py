# SPDX-License-Identifier: BSD-2-Clause
"""A program that waits for a CPU because other programs have all: the report names them."""
import contextlib
import os
import re
import subprocess
import sys
import time

import pytest
from conftest import Tracer, control_group, wait_for

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
    # a virtual machine's accounts of CPU ticks and of process time differ by stolen time
    assert host["others_cpu_ns"] >= 0.7 * used * 1e9
    assert host["busy_ns"] >= host["others_cpu_ns"]
    finding, = [f for p in report["processes"] for f in p["findings"] if f["kind"] == "CpuContention"]
    assert "other programs used" in finding["evidence"]
    assert "OMP_NUM_THREADS" not in finding["suggestion"] and finding["class"] == "contention"


@contextlib.contextmanager
def on_one_cpu(*codes):
    """Python programs that share one CPU."""
    cpu = str(max(os.sched_getaffinity(0)))
    programs = [subprocess.Popen(["taskset", "-c", cpu, sys.executable, "-c", code]) for code in codes]
    try:
        assert wait_for(lambda: all(cpu_seconds(program.pid) >= 0.05 for program in programs))
        yield programs
    finally:
        for program in programs:
            program.kill()
            program.wait()


def on_cpu_ns(pid):
    with open(f"/proc/{pid}/schedstat") as schedstat:
        return int(schedstat.read().split()[0])


def named(name, code):
    return f"open('/proc/self/comm', 'w').write({name!r})\n{code}"


SPINS = "while True: pass"
# half a millisecond of work, repeatedly: it often has the CPU just before the traced program
WAKES = "import time\nwhile True:\n    time.sleep(0.002)\n    for i in range(5000): pass"


def test_rivals_are_charged_by_their_cpu_time():
    """On a single CPU, a program's wait for another equals that program's CPU time."""
    with on_one_cpu(SPINS, named("burner", SPINS), named("waker", WAKES)) as (target, *rivals):
        outer = [on_cpu_ns(rival.pid) for rival in rivals]
        tracer = Tracer(target.pid, "-F", "libc.so*:memcpy", "--no-calibrate")
        inner = [on_cpu_ns(rival.pid) for rival in rivals]
        time.sleep(1.5)
        inner = [on_cpu_ns(rival.pid) - before for rival, before in zip(rivals, inner)]
        report = tracer.stop()
        outer = [on_cpu_ns(rival.pid) - before for rival, before in zip(rivals, outer)]
    (process,) = report["processes"]
    charged = {rival["pid"]: rival for rival in process["rivals"]}
    for rival, name, least, most in zip(rivals, ("burner", "waker"), inner, outer):
        assert charged[rival.pid]["comm"] == name and charged[rival.pid]["kind"] == "other"
        assert 0.9 * least <= charged[rival.pid]["ns"] <= 1.05 * most, name
    waited = [row for row in process["blocked"] if row["reason"] == "runnable"]
    assert sum(rival["ns"] for rival in process["rivals"]) <= sum(row["ns"] for row in waited)
    assert process["rivals"][0]["pid"] == rivals[0].pid
    finding, = [f for f in process["findings"] if f["kind"] == "CpuContention"]
    assert f"meanwhile burner (pid {rivals[0].pid}) had the CPU for" in finding["evidence"]


THREADS = """import os, threading, zlib
data = bytes(range(256)) * 40000
def compress():
    while True: zlib.compress(data, 9)
for _ in range(os.cpu_count()): threading.Thread(target=compress, daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("traced", [False, True])
def test_a_program_on_one_of_several_cpus_is_charged(traced):
    """As many threads as CPUs, and another program on one CPU: without that program no thread would
    wait, so it is charged whichever CPU the waiting thread is queued on, traced or not."""
    if os.cpu_count() < 2:
        pytest.skip("one CPU")
    programs = [subprocess.Popen([sys.executable, "-c", code]) for code in (THREADS, named("burner", SPINS))]
    target, burner = programs
    try:
        assert wait_for(lambda: all(cpu_seconds(program.pid) >= 0.2 for program in programs))
        also = ["-p", str(burner.pid)] if traced else []
        tracer = Tracer(target.pid, "-F", "libc.so*:memcpy", "--no-calibrate", *also)
        before = on_cpu_ns(burner.pid)
        time.sleep(1.5)
        used_ns = on_cpu_ns(burner.pid) - before
        report = tracer.stop()
    finally:
        for program in programs:
            program.kill()
            program.wait()
    process, = [p for p in report["processes"] if p["pid"] == target.pid]
    charged = {rival["pid"]: rival for rival in process["rivals"]}[burner.pid]
    assert charged["kind"] == "other" and charged["comm"] == "burner"
    assert charged["ns"] >= 0.8 * used_ns


def test_a_stranger_of_the_same_name_keeps_its_pid():
    with on_one_cpu(SPINS, SPINS) as (target, stranger):
        tracer = Tracer(target.pid, "-F", "libc.so*:memcpy", "--no-calibrate")
        time.sleep(1)
        report = tracer.stop()
    (process,) = report["processes"]
    assert process["rivals"][0]["pid"] == stranger.pid and process["rivals"][0]["kind"] == "other"
    finding, = [f for f in process["findings"] if f["kind"] == "CpuContention"]
    # other tests run as python3, too
    assert re.search(rf"; meanwhile {re.escape(process['comm'])} \(pids? {stranger.pid}[),]", finding["evidence"])
    assert not any(str(target.pid) in f["evidence"] for f in process["findings"])


def test_another_tracer_is_another_program():
    """Only the recording tracer is "perfx-trace itself", whatever other processes call themselves."""
    with on_one_cpu(SPINS, named("perfx-trace", SPINS)) as (target, other):
        tracer = Tracer(target.pid, "-F", "libc.so*:memcpy", "--no-calibrate")
        time.sleep(1)
        report = tracer.stop()
    (process,) = report["processes"]
    charged = {rival["pid"]: rival for rival in process["rivals"]}
    assert charged[other.pid]["comm"] == "perfx-trace" and charged[other.pid]["kind"] == "other"
    assert all(rival["comm"] == "perfx-trace itself" for rival in charged.values() if rival["kind"] == "tracer")


# the child ends with its parent
FORKS = """import os
parent = os.getpid()
if not os.fork():
    open("/proc/self/comm", "w").write("child")
while os.getpid() == parent or os.getppid() == parent: pass
"""


def test_its_own_children_are_no_other_programs():
    with on_one_cpu(FORKS) as (target,):
        tracer = Tracer(target.pid, "-F", "libc.so*:memcpy", "--no-calibrate")
        time.sleep(1)
        report = tracer.stop()
    parent, child = sorted(report["processes"], key=lambda p: p["pid"] != target.pid)
    for process, rival in ((parent, child), (child, parent)):
        assert {other["pid"]: other["kind"] for other in process["rivals"]}[rival["pid"]] == "job"


# 20 ms in each 100 ms
CPU_LIMITS = [("/sys/fs/cgroup", "cpu.max", "20000 100000"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "20000")]


def test_a_cpu_limit_throttles_it():
    """Time that a container's CPU limit takes is attributed to the limit, equal to the kernel's own
    numbers."""
    program = subprocess.Popen([sys.executable, "-c", SPINS])
    try:
        with control_group(program.pid, CPU_LIMITS) as (group, file, limit):
            (group / file).write_text(limit)
            tracer = Tracer(program.pid, "-F", "libc.so*:memcpy", "--no-calibrate")
            time.sleep(1.5)
            report = tracer.stop()
            stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    finally:
        program.kill()
        program.wait()
    assert report["verdict"].startswith("THROTTLED: "), report["verdict"]
    (process,) = report["processes"]
    finding, = [f for f in process["findings"] if f["kind"] == "CpuThrottled"]
    count, periods = map(int, re.search(r" in (\d+) of (\d+) periods", finding["evidence"]).groups())
    assert 0.8 * periods <= count <= int(stat["nr_throttled"])
    assert periods <= int(stat["nr_periods"])
    assert "raise the limit (cpu.max" in finding["suggestion"] and "0.2" in finding["suggestion"]
