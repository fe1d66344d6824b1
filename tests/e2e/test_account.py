# SPDX-License-Identifier: BSD-2-Clause
"""The account of time of programs without known functions: it adds up, and the verdict names the
place."""
import collections
import contextlib
import os
import subprocess

import pytest
from conftest import WORKLOADS, Tracer

PYTHON = "/usr/bin/python3"
CLASSES = ("computing", "spinning", "join", "gil", "lock", "input", "output", "disk", "sleep", "child", "other", "runnable",
           "stopped", "unknown")

pytestmark = pytest.mark.alone


@contextlib.contextmanager
def started(*argv):
    """A program that prints when it is ready."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def report_of(pid, seconds=2):
    tracer = Tracer(pid, budget=True, duration=str(seconds))
    try:
        report = tracer.report()
    finally:
        tracer.kill()
    print(report["verdict"])
    for process in report["processes"]:
        print(process["pid"], *process["findings"], sep="\n")
        whole(process["account"])
        for thread in process["account"]["threads"]:
            whole(thread)
        assert process["account"]["wall_ns"] == sum(thread["wall_ns"] for thread in process["account"]["threads"])
    assert "No traced function" not in report["verdict"]
    return report


def whole(account):
    """Each moment is in exactly one class."""
    assert sum(account.get(f"{name}_ns", 0) for name in CLASSES) == account["wall_ns"]


def process_of(report, pid):
    process, = (process for process in report["processes"] if process["pid"] == pid)
    return process


def problems(report, *names):
    return [finding for process in report["processes"] for finding in process["findings"]
            if finding.get("class") in names and finding["severity"] != "low"]


def write(path, text):
    path.write_text(text)
    return str(path)


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def test_ways_to_wait_on_a_cpu(program):
    """Loops that only wait, by their instructions or by the calls that they make, are no computing."""
    p = program(WORKLOADS / "spins")
    tracer = Tracer(p.pid, "--sample", "499", "--memory", "off")
    p.go()
    account = tracer.stop()["processes"][0]["account"]
    whole(account)
    sums = collections.Counter()
    for place in account["places"]:
        sums[place.get("own", {}).get("function"), place["class"]] += place["ns"]
    for (function, key), cpu_ns in p.finish().items():
        spins_ns, works_ns = sums[function, "spinning"], sums[function, "computing"]
        print(function, key, cpu_ns, spins_ns, works_ns)
        assert spins_ns + works_ns > cpu_ns / 2
        # a few samples meet the instructions around a call of sched_yield or poll
        assert works_ns < 0.2 * spins_ns if key == "spins" else spins_ns == 0


POLLED = """
import threading, time, zlib
data = bytes(range(256)) * 40000

def compress():
    for _ in range(5):
        zlib.compress(data, 9)          # without the GIL

print("ready", flush=True)
while True:
    pool = [threading.Thread(target=compress) for _ in range(2)]
    for thread in pool:
        thread.start()
    while any(thread.is_alive() for thread in pool):
        time.sleep(0.01)
"""


def test_who_polls_its_threads_joins_them(tmp_path):
    with started(PYTHON, write(tmp_path / "polled.py", POLLED)) as process:
        report = report_of(process.pid)
    account = process_of(report, process.pid)["account"]
    main, = (thread for thread in account["threads"] if thread["tid"] == process.pid)
    assert main["join_ns"] > main.get("sleep_ns", 0)
    assert account["tid"] != process.pid
    assert not problems(report, "sleep", "idle")
    assert "compress (polled.py:7)" in report["verdict"]


POOL = """
import os, signal, sys, threading, time, zlib
data = bytes(range(256)) * 40000

def compress():
    while True:
        zlib.compress(data, 9)          # without the GIL

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
for _ in range(2):
    threading.Thread(target=compress, daemon=True).start()
print("ready", flush=True)
"""
WAITS = {
    "a long sleep": "time.sleep(600)",
    "pause": "signal.pause()",
    "sigwait": "signal.sigwait([signal.SIGUSR1])",
    "a pipe": "os.read(os.pipe()[0], 1)",
    "an eventfd": "os.eventfd_read(os.eventfd(0))",
    "an event": "threading.Event().wait()",
    "a condition's timeouts": "condition = threading.Condition()\nwith condition:\n    while True: condition.wait(0.05)",
    "a lock": "import queue\nqueue.SimpleQueue().get()",
    "asyncio": "import asyncio\nasync def ticks():\n    while True: await asyncio.sleep(0.1)\nasyncio.run(ticks())",
}


@pytest.mark.some(3)
@pytest.mark.parametrize("wait", WAITS)
def test_the_verdict_is_about_the_threads_that_work(tmp_path, wait):
    """Whatever the main thread waits for while its own threads compute."""
    with started(PYTHON, write(tmp_path / "pool.py", POOL + WAITS[wait] + "\n")) as process:
        report = report_of(process.pid)
    account = process_of(report, process.pid)["account"]
    main, = (thread for thread in account["threads"] if thread["tid"] == process.pid)
    assert main["join_ns"] >= 0.9 * (main["wall_ns"] - main.get("runnable_ns", 0))
    assert account["tid"] != process.pid
    assert not problems(report, "sleep", "idle", "input", "lock")
    assert "compress (pool.py:7)" in report["verdict"]


LOOPS = {
    "timers": ("while True: await asyncio.sleep(0.05)", "SLEEPING"),
    "a poll of nothing": ("while True: select.select([], [], [], 0.05)", "SLEEPING"),
    "no timer": ("await asyncio.Event().wait()", "IDLE"),
    "a server": ("await (await asyncio.start_server(print, '127.0.0.1', 0)).serve_forever()", "IDLE"),
    "a server with a clock": ("server = await asyncio.start_server(print, '127.0.0.1', 0)\n"
                              "    while True: await asyncio.sleep(0.05)", "IDLE"),
}
LOOP = """
import asyncio, select

async def main():
    print("ready", flush=True)
    {}

asyncio.run(main())
"""


@pytest.mark.some(2)
@pytest.mark.parametrize("loop", LOOPS)
def test_an_event_loop_sleeps_or_waits_for_clients(tmp_path, loop):
    body, verdict = LOOPS[loop]
    with started(PYTHON, write(tmp_path / "loop.py", LOOP.format(body))) as process:
        report = report_of(process.pid)
    assert report["verdict"].startswith(f"{verdict}: ")
    assert "(loop.py:" in report["verdict"]


WORKERS = """
import multiprocessing as mp, os, zlib
data = bytes(range(256)) * 4000

def work(barrier):
    barrier.wait()
    while True:
        zlib.compress(data, 9)

if __name__ == "__main__":
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    context = mp.get_context("fork")
    barrier = context.Barrier(5)
    workers = [context.Process(target=work, args=(barrier,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    barrier.wait()
    print("ready", flush=True)
    for worker in workers:
        worker.join()
"""


def test_workers_that_share_a_cpu_are_not_idle(tmp_path):
    with started(PYTHON, write(tmp_path / "workers.py", WORKERS)) as process:
        report = report_of(process.pid)
    assert not problems(report, "idle", "sleep", "child")
    verdict = report["verdict"]
    assert verdict.startswith("CPU CONTENTION: ") and " of the same job (pids " in verdict.partition(". ")[0]
    assert "work (workers.py:8)" in verdict
    workers = [p["account"] for p in report["processes"] if p["ppid"] == process.pid]
    job = {p["pid"] for p in report["processes"]}
    for worker in (p for p in report["processes"] if p["ppid"] == process.pid):
        finding, = (f for f in worker["findings"] if f["kind"] == "CpuContention")
        assert finding["class"] == "contention" and finding["severity"] == "high"
        assert {rival["pid"] for rival in worker["rivals"] if rival["kind"] == "job"} == job - {worker["pid"], process.pid}
    assert len(workers) == 4 and all(worker["runnable_ns"] > worker["computing_ns"] for worker in workers)
    assert process_of(report, process.pid)["account"]["join_ns"] > 0


SORTS = """
import numpy

def hot(a):
    while True:
        numpy.sort(a)

print("ready", flush=True)
hot(numpy.random.default_rng(0).standard_normal(400_000))
"""


@pytest.mark.skipif(not has(PYTHON, "numpy"), reason=f"{PYTHON} has no numpy (Debian: python3-numpy)")
def test_the_programs_own_line_stands_above_a_package(tmp_path):
    with started(PYTHON, write(tmp_path / "sorts.py", SORTS)) as process:
        report = report_of(process.pid)
    assert "hot (sorts.py:6), in numpy sort (fromnumeric.py:" in report["verdict"]


STRIPPED = """
#include <stdio.h>

int main(void)
{
    puts("ready");
    fflush(stdout);
    for (volatile unsigned long i = 0;; i++)
        ;
}
"""


def test_a_program_without_symbols(tmp_path):
    source, program = write(tmp_path / "loop.c", STRIPPED), str(tmp_path / "bare-loop")
    subprocess.run(["gcc", "-O1", "-s", "-o", program, source], check=True)
    with started(program) as process:
        report = report_of(process.pid)
    assert "bare-loop (no symbols)" in report["verdict"]


READER = """
import time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)

def rows_of(shard):
    for _ in range(100):
        time.sleep(0.008)
        yield torch.ones(32, 64)

def batches():
    while True:
        yield from rows_of(0)

def main():
    print("ready", flush=True)
    for batch in batches():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

main()
"""


@pytest.mark.skipif(not has(PYTHON, "torch"), reason=f"{PYTHON} has no torch (Debian: python3-torch)")
def test_sleeps_of_a_generator_are_the_datas(tmp_path):
    with started(PYTHON, write(tmp_path / "reads.py", READER)) as program:
        report = report_of(program.pid, 3)
        process = process_of(report, program.pid)
    finding, = (finding for finding in process["findings"] if finding["kind"] == "DataBound")
    assert report["verdict"].startswith("INPUT-BOUND: "), report["verdict"]
    assert "rows_of (reads.py:9), which sleeps 8." in finding["evidence"]
    assert "num_workers" not in finding["suggestion"] and "queue" in finding["suggestion"]
    assert not any(finding["kind"] == "SleepWait" for finding in process["findings"])


# Each works for the seconds of its argument.
WORKS_FOR = """
import queue, sys, threading, time

def nap():
    time.sleep(0.02)

def count():
    for _ in range(100000):
        pass

kept = []

def keep():
    kept.append(bytearray(b"x" * 300000))
    time.sleep(0.01)

print("ready", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    globals()[sys.argv[1]]()
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("work", ["nap", "count", "keep"])
def test_a_recording_that_is_cut_finds_the_same(tmp_path, work):
    """The findings equal those of a recording that lasts to the program's end. Only time distinguishes
    a leak from growth, so they count as one class."""
    path, first = write(tmp_path / "works.py", WORKS_FOR), []
    for program_seconds, seconds in ("30", 3), ("4", 10):
        with started(PYTHON, path, work, program_seconds) as process:
            finding, = process_of(report_of(process.pid, seconds), process.pid)["findings"][:1]
            subject = finding["subject"].replace(str(process.pid), "PID")
            first.append((finding["class"], subject if finding["class"] != "memory" else ""))
    assert first[0] == first[1]
