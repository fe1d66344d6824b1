# SPDX-License-Identifier: BSD-2-Clause
"""perfx.profile with the real tracer: the calling process, for the duration of a call."""
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from conftest import PERFX, TOP

PYTHON = "/usr/bin/python3"
HEAD = """
import ctypes, json, math, sys, threading
import perfx
work = ctypes.CDLL("libm.so.6").cbrt
work.restype, work.argtypes = ctypes.c_double, [ctypes.c_double]
def calls(n):
    for i in range(n): work(i)
    return n
profiler = perfx.Profiler("-F", "libm.so*:cbrt", "--memory", "off")
"""


def run_python(code, user=None, tracer=PERFX, path=TOP / "python"):
    who = {"user": user, "group": "nogroup", "extra_groups": [], "cwd": "/"} if user else {}
    return subprocess.run([PYTHON, "-B", "-c", HEAD + code], capture_output=True, text=True,
                          timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": str(path), "PERFX_TRACE": tracer}, **who)


def test_calls_are_exact():
    run = run_python("""
calls(50)
result, stats = profiler.profile(calls, 1000)
calls(50)
again = profiler.profile(calls, 7)[1]
print(json.dumps([result, stats["cbrt"].call_count, again["cbrt"].call_count, len(stats.report["processes"]),
                  stats.metadata["losses"]]))
assert stats["cbrt"].avg_duration_ms > 0 and stats.metadata["pid"] == stats.report["processes"][0]["pid"]
assert "cbrt" in str(stats)
""")
    assert run.returncode == 0, run.stderr
    # one process: the tracer, a child of the traced process, is excluded
    *counts, losses = json.loads(run.stdout)
    assert counts == [1000, 1000, 7, 1], losses


@pytest.mark.alone  # other tests fill the control group with page cache: see test_a_group_full_of_page_cache
def test_twice_at_once():
    """One inside the other, and in two threads at the same time, each with its own tracer."""
    run = run_python("""
def outer():
    calls(10)
    return profiler.profile(calls, 100)
(_, inner), stats = profiler.profile(outer)
print(inner["cbrt"].call_count, stats["cbrt"].call_count)
barrier, found = threading.Barrier(2), []
def both():
    barrier.wait()
    calls(30)
    barrier.wait()
threads = [threading.Thread(target=lambda: found.append(profiler.profile(both)[1])) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
print(*(stats["cbrt"].call_count for stats in found))
""")
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["100 110", "60 60"]


def test_exception_passes_and_the_tracer_ends():
    run = run_python("""
import os, pathlib
try:
    profiler.profile(lambda: calls(3) / 0)
except ZeroDivisionError:
    me = str(os.getpid())
    children = pathlib.Path(f"/proc/{me}/task/{me}/children").read_text()
    print("passed", children.split())
""")
    assert run.stdout == "passed []\n", run.stderr


def test_without_privilege():
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        tracer = shutil.copy(PERFX, place)
        os.chmod(tracer, 0o755)
        package = shutil.copytree(TOP / "python" / "perfx", place + "/perfx",
                                  ignore=shutil.ignore_patterns("__pycache__"))
        run = run_python("""
try:
    profiler.profile(calls, 1)
except perfx.ProfilingError as error:
    print(error)
""", user="nobody", tracer=tracer, path=os.path.dirname(package))
    assert "sudo" in run.stdout and "setcap" in run.stdout, run.stdout + run.stderr


MARKS = """
import asyncio
traced = perfx.Profiler("--no-calibrate")

@perfx.track
def forward(batch):
    with perfx.scope("matmul"):
        return calls(batch)

@perfx.track(name="train | `step`")
def train_step(batch):
    with perfx.step():
        forward(batch)
        perfx.counter("loss", 1 / batch)
        perfx.counter_add("samples", batch)

class Net:
    @perfx.track
    def forward(self):
        pass

@perfx.track
def batches():
    for i in range(3): yield i + 1

def rows(stats):
    (process,) = stats.report["processes"]
    return {f["name"]: f for f in process["functions"]}

def parents(stats, name):
    return {p["name"]: p["calls"] for p in rows(stats)[name]["parents"]}
"""


def profiled(code):
    run = run_python(MARKS + code)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_marks_by_their_names():
    names, counts, times, callers, counters, steps, again = profiled("""
def job():
    for batch in batches(): train_step(batch)
    Net().forward()
    perfx.mark("done")
job()
result, stats = traced.profile(job)
assert all(stats[name].avg_duration_ms == rows(stats)[name]["avg_ns"] / 1e6 for name in ("forward", "step"))
assert "train | `step`" in str(stats)
print(json.dumps([
    sorted(row.name for row in stats), {row.name: row.call_count for row in stats},
    {row.name: [row.total_duration_ms * 1e6, row.avg_duration_ms] for row in stats if row.avg_duration_ms},
    {name: parents(stats, name) for name in rows(stats)}, stats.report["processes"][0]["counters"],
    stats.report["processes"][0]["steps"]["count"], traced.profile(forward, 1)[1]["forward"].call_count]))
""")
    expected = {"job": 1, "train | `step`": 3, "forward": 3, "matmul": 3, "step": 3, "Net.forward": 1,
                "batches": 4, "done": 1}
    assert counts == expected and names == sorted(expected)
    assert callers["matmul"] == {"forward": 3} and callers["forward"] == {"step": 3}
    assert callers["step"] == {"train | `step`": 3}
    assert callers["train | `step`"] == {"job": 3}
    assert times["matmul"][0] < times["forward"][0] < times["job"][0]
    values = {c["name"]: (c["samples"], c["value"]) for c in counters}
    assert values == {"loss": (3, 1 / 3), "samples": (3, 6)}
    assert steps == 3 and again == 1


def test_threads_keep_their_nesting():
    callers, counts = profiled("""
def one(number, barrier):
    with perfx.scope(f"outer {number}"):
        for _ in range(20):
            barrier.wait()
            with perfx.scope(f"inner {number}"):
                barrier.wait()
                calls(1)
def job():
    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=one, args=(n, barrier)) for n in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
stats = traced.profile(job)[1]
print(json.dumps([{name: parents(stats, name) for name in rows(stats)},
                  {row.name: row.call_count for row in stats}]))
""")
    for number in range(3):
        assert callers[f"inner {number}"] == {f"outer {number}": 20}
        assert callers[f"outer {number}"] == {"[untraced]": 1}
        assert counts[f"inner {number}"] == 20


def test_tasks_keep_their_nesting():
    """Three tasks take turns on one thread; a plain function that each of them calls belongs to its
    task."""
    callers, own = profiled("""
@perfx.track
def compute(): calls(1)

def task(number):
    @perfx.track(name=f"task {number}")
    async def run():
        for _ in range(10):
            with perfx.scope(f"wait {number}"):
                await asyncio.sleep(0)
                compute()
            compute()
    return run()

async def all_tasks():
    with perfx.scope("all"):
        await asyncio.gather(*(task(n) for n in range(3)))

stats = traced.profile(asyncio.run, all_tasks())[1]
r = rows(stats)
print(json.dumps([{name: parents(stats, name) for name in r},
                  {name: [f["total_ns"], f["self_ns"], {p["name"]: p["total_ns"] for p in f["parents"]}]
                   for name, f in r.items() if "total_ns" in f}]))
""")
    for number in range(3):
        assert callers[f"wait {number}"] == {f"task {number}": 10}
        assert callers[f"task {number}"] == {"all": 1}
    assert callers["compute"] == {**{f"wait {n}": 10 for n in range(3)},
                                  **{f"task {n}": 10 for n in range(3)}}
    for number in range(3):
        total, self_ns, _ = own[f"task {number}"]
        inside = own["compute"][2][f"task {number}"] + own[f"wait {number}"][0]
        assert self_ns == total - inside


def test_a_program_that_says_when():
    """perfx.start and perfx.stop, with a tracer that waits for them."""
    counts, windows = profiled("""
waiting = perfx.Profiler("--no-calibrate", "--wait")
def job():
    forward(1)
    for _ in range(2):
        perfx.start()
        forward(1)
        forward(1)
        perfx.stop()
        forward(1)
stats = waiting.profile(job)[1]
print(json.dumps([{row.name: row.call_count for row in stats}, stats.report["capture"]["windows"]]))
""")
    assert counts == {"forward": 4, "matmul": 4}
    assert len(windows) == 2
