# SPDX-License-Identifier: BSD-2-Clause
"""Time off the CPU: programs that know how long their threads waited, and for what."""
import ast
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import BUILD, TOP, WORKLOADS, control_group, run, wait_for
from test_python_frames import PYTHONS

QUIET = ("--no-calibrate", "--memory", "off", "--sample", "off")
REASONS = {"wait_read": "read", "wait_poll": "poll", "wait_epoll": "epoll", "wait_lock": "futex",
           "wait_cond": "futex", "wait_sleep": "sleep", "wait_child": "wait", "wait_disk": "disk",
           "wait_fault": "page_fault", "wait_turn": "runnable"}


def about(value):
    """Equal, within the difference between clocks of a virtual machine."""
    return pytest.approx(value, rel=0.05, abs=30e6)


def waits_of(report, pid, tid):
    """Rows of a thread, by reason."""
    rows = collections.defaultdict(list)
    for process in report["processes"]:
        if process["pid"] == pid:
            for row in process["blocked"]:
                if row["tid"] == tid:
                    rows[row["reason"]].append(row)
    return rows


def ns_of(rows):
    return sum(row["ns"] for row in rows)


def longest(rows):
    return max(rows, key=lambda row: row["ns"])


@pytest.fixture(name="waits")
def fixture_waits(program, tracer):
    """The workload on a file system of a disk, if there is one: (expectations, report, pid, file)."""
    path = BUILD / "workloads" / "waits.bin"

    def start():
        process = program(WORKLOADS / "waits", path)
        trace = tracer(process.pid, *QUIET, "-F", "waits:wait_*")
        process.go()
        report = trace.stop()
        return process.finish(), report, process.pid, path

    yield start
    path.unlink(missing_ok=True)


@pytest.mark.kernel
def test_each_reason(waits):
    """Rows of threads, and the time off the CPU of calls, around which the thread measures, too; it may
    be preempted between two of them."""
    expected, report, pid, path = waits()
    found = {}
    for function, reason in REASONS.items():
        rows = found[function] = waits_of(report, pid, expected[function, "tid"])
        off_ns, queued_ns = expected[function, "off_ns"], expected[function, "queued_ns"]
        assert sum(map(ns_of, rows.values())) == about(off_ns), function
        assert ns_of(rows["runnable"]) == about(queued_ns), function
        if reason != "runnable":
            assert ns_of(rows[reason]) == about(off_ns - queued_ns), function
    for function in ("wait_read", "wait_poll"):  # " from waits": a child has the other end, too
        pipe = longest(found[function][REASONS[function]])["object"]
        assert pipe.startswith(f"pipe:[{expected[function, 'inode']}]")
    # its own events (a pipe), except while a child of wait_child() lives and has the pipe, too
    descriptor = f"(descriptor {expected['wait_epoll', 'fd']})"
    names = {f"epoll of its own events {descriptor}", f"epoll {descriptor}"}
    assert longest(found["wait_epoll"]["epoll"])["object"] in names
    locked = longest(found["wait_lock"]["futex"])
    assert locked["holder_tid"] != expected["wait_lock", "tid"]  # the thread that unlocked it and so held it
    lock = locked["object"]
    assert lock.startswith("lock at waits+0x")
    assert int(lock.rpartition("+")[2], 16) % 4096 == expected["wait_lock", "address"] % 4096
    assert {row["object"] for row in found["wait_disk"]["disk"]} <= {str(path)}
    assert "waits" in {row["object"] for row in found["wait_turn"]["runnable"]}
    (process,) = [p for p in report["processes"] if p["pid"] == pid]
    functions = {f["name"]: f for f in process["functions"]}
    for function in set(REASONS) - {"wait_turn", "wait_lock"}:  # which others call, or wait beside
        off_ns, queued_ns = expected[function, "off_ns"], expected[function, "queued_ns"]
        slack_ns = max(0.05 * off_ns, 30e6)  # of about()
        off_cpu_ns = functions[function]["off_cpu_ns"]
        assert off_ns - queued_ns - slack_ns <= off_cpu_ns <= off_ns + slack_ns, function
        assert functions[function]["off_cpu_ns"] <= functions[function]["total_ns"]


def test_a_wait_that_outlasts_the_recording():
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        assert wait_for(lambda: "nanosleep" in (open(f"/proc/{sleeper.pid}/stack", encoding="utf8").read()))
        report, without = (json.loads(run("-p", sleeper.pid, "-d", "1s", "-f", "json", "-F", "libc.so*:getpid", *QUIET,
                                          "--off-cpu", on_or_off).stdout) for on_or_off in ("on", "off"))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert not without["processes"][0].get("blocked")
    ((row,),) = waits_of(report, sleeper.pid, sleeper.pid).values()
    assert row["reason"] == "sleep" and row["count"] == 1
    assert row["ns"] == row["max_ns"] == pytest.approx(report["capture"]["duration_ns"], abs=40e6)


TWO_THREADS = """
import sys, threading, time

stop, said = False, []

def spin():
    def queued_ns():
        with open("/proc/thread-self/schedstat") as schedstat:
            return int(schedstat.read().split()[1])
    wall, cpu, queued = time.monotonic_ns(), time.thread_time_ns(), queued_ns()
    while not stop:
        for i in range(1000):
            pass
    off = time.monotonic_ns() - wall - (time.thread_time_ns() - cpu)
    said.append((threading.get_native_id(), off - (queued_ns() - queued)))

print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=spin) for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(1)
stop = True
for thread in threads:
    thread.join()
print(said, flush=True)
sys.stdin.readline()
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_interpreters_lock(tracer, python):
    """Threads that only compute wait only for a CPU and the GIL; the kernel knows how long for a CPU.
    Each thread waits for the other."""
    program = subprocess.Popen([python, "-c", TWO_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    try:
        assert program.stdout.readline() == "ready\n"
        trace = tracer(program.pid, *QUIET, "-F", "libc.so*:getpid")
        program.stdin.write("go\n")
        program.stdin.flush()
        said = dict(ast.literal_eval(program.stdout.readline()))
        report = trace.stop()
    finally:
        program.kill()
        program.wait()
    for tid, waited_ns in said.items():
        rows = waits_of(report, program.pid, tid)
        assert ns_of(rows["gil"]) == about(waited_ns)
        assert {row["object"] for row in rows["gil"]} == {"GIL"}
        assert longest(rows["gil"])["holder_tid"] in set(said) - {tid}


TURNS = """
import perfx, sys, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    perfx.start()
    time.sleep(0.3)
    perfx.stop()
    time.sleep(0.3)
print("done", flush=True)
"""


def test_only_what_is_recorded_counts(tracer):
    """--wait: the part of a wait inside a window, or its parts in several. The program may end while
    the tracer stops."""
    program = subprocess.Popen([sys.executable, "-c", TURNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, env={"PYTHONPATH": str(TOP / "python"),
                                              "PERFX_LIBRARY": str(BUILD / "libperfx.so.1")})
    try:
        assert program.stdout.readline() == "ready\n"
        trace = tracer(program.pid, *QUIET, "--wait")
        program.stdin.write("go\n" * 2)
        program.stdin.close()
        assert program.stdout.readline() == "done\n"
        report = trace.stop()
    finally:
        program.kill()
        program.wait()
    (process,) = report["processes"]
    slept = [row for row in process["blocked"] if row["reason"] not in ("runnable", "page_fault")]
    assert ns_of(row for row in slept if row["tid"] == program.pid) == about(2 * 300e6)
    (sleeper,) = [row for row in slept if row["tid"] != program.pid]
    assert sleeper["reason"] == "sleep" and sleeper["count"] == 1
    assert sleeper["ns"] == sleeper["max_ns"] == about(2 * 300e6)
    assert report["capture"]["recorded_ns"] == about(2 * 300e6)


CROWD = """
import sys, threading, time
count = int(sys.argv[1])
threading.stack_size(64 << 10)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(count // 300):
    threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done", flush=True)
sys.stdin.readline()
"""


def test_threads_that_come_and_go(tracer):
    """The kernel has room for the waits of 8,192 threads at a time. Those of ended threads are read in
    time, so each thread's own sleep is known."""
    count = 9000
    program = subprocess.Popen([sys.executable, "-c", CROWD, str(count)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "ready\n"
        trace = tracer(program.pid, *QUIET)
        program.stdin.write("go\n")
        program.stdin.flush()
        assert program.stdout.readline() == "done\n"
        report = trace.stop()
    finally:
        program.kill()
        program.wait()
    (process,) = report["processes"]
    slept = [row for row in process["blocked"] if row["reason"] == "sleep"]
    assert all(row["tid"] for row in slept)
    # a thread that was preempted until its time was over only waited for a CPU
    assert count * 0.98 < sum(row["count"] for row in slept) <= count
    assert report["losses"]["map_full"] == 0


SPINS = [sys.executable, "-c", "while True: pass"]


@contextlib.contextmanager
def signal_stops(pid):
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


FREEZERS = [("/sys/fs/cgroup", "cgroup.freeze", "1", "0"), ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
            ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED")]


@contextlib.contextmanager
def freezer_stops(pid):
    with control_group(pid, FREEZERS) as (group, file, freeze, thaw):
        (group / file).write_text(freeze)
        yield
        (group / file).write_text(thaw)


@pytest.mark.some(2)
@pytest.mark.parametrize("stops, before", [(signal_stops, False), (freezer_stops, True), (signal_stops, True),
                                           (freezer_stops, False)])
def test_stopped(tracer, stops, before):
    """Stopped by a signal or a freezer, during tracing or before."""
    program = subprocess.Popen(SPINS)
    try:
        with contextlib.ExitStack() as stack:
            if before:
                stack.enter_context(stops(program.pid))
            trace = tracer(program.pid, *QUIET, "-F", "libc.so*:getpid")
            if not before:
                stack.enter_context(stops(program.pid))
            stopped_ns = time.monotonic_ns()
            time.sleep(0.5)
        stopped_ns = time.monotonic_ns() - stopped_ns
        time.sleep(0.2)
        report = trace.stop()
    finally:
        program.kill()
        program.wait()
    (row,) = waits_of(report, program.pid, program.pid)["stopped"]
    assert row["count"] == 1 and row["ns"] == row["max_ns"] == pytest.approx(stopped_ns, abs=100e6)


VFORK = """
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	for (;;) {
		pid_t child = vfork();

		if (!child) {
			usleep(50000);
			_exit(0);
		}
		waitpid(child, 0, 0);
		getpid();
	}
}
"""


def test_vfork(tracer, tmp_path):
    """The parent waits until the child has ended; the kernel marks it as frozen meanwhile, which it is
    not."""
    (tmp_path / "forks.c").write_text(VFORK)
    subprocess.run(["cc", "-o", tmp_path / "forks", tmp_path / "forks.c"], check=True)
    program = subprocess.Popen([tmp_path / "forks"])
    try:
        trace = tracer(program.pid, *QUIET, "-F", "libc.so*:getpid")
        time.sleep(0.5)
        report = trace.stop()
    finally:
        program.kill()
        program.wait()
    waits = waits_of(report, program.pid, program.pid)
    assert "stopped" not in waits
    assert ns_of(waits["vfork"]) > 250_000_000
