# SPDX-License-Identifier: BSD-2-Clause
"""perfx.profile with the real tracer: the calling process, for the duration of a call."""
import json
import os
import shutil
import subprocess
import tempfile

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
print(json.dumps([result, stats["cbrt"].call_count, again["cbrt"].call_count, len(stats.report["processes"])]))
assert stats["cbrt"].avg_duration_ms > 0 and stats.metadata["pid"] == stats.report["processes"][0]["pid"]
assert "cbrt" in str(stats)
""")
    assert run.returncode == 0, run.stderr
    # one process: the tracer, a child of what it traces, is none of it
    assert json.loads(run.stdout) == [1000, 1000, 7, 1]


def test_twice_at_once():
    """One inside the other, and two threads at the same time, each with a tracer of its own."""
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
