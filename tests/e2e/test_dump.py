# SPDX-License-Identifier: BSD-2-Clause
"""perfx-trace dump: what each thread does now. The programs know where their threads are, and since when."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import control_group, run, run_unprivileged, status, wait_for
from test_python_frames import PY_SPY, needs_py_spy
from test_waits import FREEZERS

# The clocks of /proc and of CPUs in a virtual machine, and a thread's way to sleep on a busy one.
NEAR_NS = 60e6

SCRIPT = """
import threading, time, sys, os
events = []
def rest(event):
    began = time.monotonic_ns()
    while time.monotonic_ns() - began < 300_000_000:   # the wait begins long after the thread got its CPU
        pass
    events.append(time.monotonic_ns())
    event.wait()                                       # line 9
def outer(event):
    rest(event)                                        # line 11
def main(count):
    event = threading.Event()
    first = threading.Thread(target=outer, args=(event,), daemon=True)
    first.start()
    while not events:
        time.sleep(0.01)
    for _ in range(count):
        threading.Thread(target=event.wait, daemon=True).start()   # line 19
    print("ready", os.getpid(), events[0], flush=True)
    read = os.read(0, 1)                               # line 21
main(int(sys.argv[1]))
"""


def start(started, *argv):
    process = subprocess.Popen([*map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    started.append(process)
    return process, process.stdout.readline().split()


@pytest.fixture(name="started")
def fixture_started():
    processes = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(name="script")
def fixture_script(tmp_path):
    path = tmp_path / "resting.py"
    path.write_text(SCRIPT)
    return path


def dump(*options):
    done = run("dump", *options, "-f", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def threads(report):
    """Each thread with its stack, by tid."""
    found = {t["tid"]: t for p in report["processes"] for t in p["threads"]}
    for group in report["groups"]:
        for tid in group["threads"]:
            found[tid]["stack"] = group["stack"]
    return found


def lines(thread, name="resting.py"):
    return [(f["function"], f["line"]) for f in thread["stack"] if f.get("file", "").endswith(name)]


def switches(pid):
    return [status(f"{pid}/task/{tid}", "voluntary_ctxt_switches") for tid in os.listdir(f"/proc/{pid}/task")]


def test_a_thousand_python_threads(started, script):
    """Stacks, reasons and times of all; the program does not notice."""
    process, (_, pid, began_ns) = start(started, sys.executable, script, 1000)
    tids = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    assert wait_for(lambda: switches(pid) == switches(pid))
    before = switches(pid)
    from_ns = time.monotonic_ns()
    report = dump("-p", pid)
    to_ns = time.monotonic_ns()
    assert switches(pid) == before, "no thread has run"
    assert process.poll() is None and report["taken"]["records_lost"] == 0
    found = threads(report)
    assert sorted(found) == tids
    first = next(t for t in found.values() if lines(t) == [("rest", 9), ("outer", 11)])
    assert first["reason"] == "futex" and first["state"] == "S" and first["age_is_exact"]
    assert from_ns - int(began_ns) - NEAR_NS < first["age_ns"] < to_ns - int(began_ns) + NEAR_NS
    main = found[int(pid)]
    assert lines(main) == [("main", 21), ("<module>", 22)]
    assert (main["reason"], main["syscall"], main["fd"], main["target"]["kind"]) == ("read", "read", 0, "pipe")
    group = max(report["groups"], key=lambda g: len(g["threads"]))
    assert len(group["threads"]) == 1000
    assert [f["function"] for f in group["stack"] if f["language"] == "python"][:2] == ["Condition.wait", "Event.wait"]
    assert report["answer"] == "waits" and report["verdict"].startswith("WAITS FOR pipe:[")


@pytest.mark.kernel
def test_text_and_capture(started, script, tmp_path):
    """The first line is the answer; a capture is reported as the dump that it is."""
    _, (_, pid, _) = start(started, sys.executable, script, 2)
    capture = tmp_path / "stuck.perfx"
    done = run("dump", "-p", pid, "--capture", capture)
    assert done.returncode == 0, done.stderr
    first, _, rest = done.stdout.partition("\n")
    assert first.startswith("WAITS FOR pipe:[") and "Each of 2 threads waits for" in rest
    assert "    rest (resting.py:9)\n    outer (resting.py:11)\n" in rest
    assert run("report", capture).stdout == done.stdout
    assert json.loads(run("report", capture, "-f", "json").stdout)["schema"] == "perfx.dump/1"
    markdown = run("dump", "-p", pid, "-f", "md").stdout
    assert "WAITS FOR" in markdown.splitlines()[2] and "```\n    __futex" in markdown


BUSY = "import time, sys\nprint('ready', flush=True)\ndef spin():\n    while True:\n        pass\nspin()\n"


def test_states(started, tmp_path):
    """Running, stopped by a signal, traced, frozen, out of its CPU time; a main thread that has ended."""
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    process, _ = start(started, sys.executable, script)
    report = dump("-p", process.pid)
    assert report["answer"] == "computes" and report["verdict"].startswith("COMPUTES: 1 of 1 thread")
    main = threads(report)[process.pid]
    assert main["samples"] > 0 and lines(main, "busy.py")[0][0] == "spin"
    process.send_signal(signal.SIGSTOP)
    assert wait_for(lambda: status(process.pid, "State").startswith("T"))
    report = dump("-p", process.pid)
    assert report["answer"] == "stopped" and "(SIGSTOP)" in report["verdict"]
    assert threads(report)[process.pid]["state"] == "T"
    process.send_signal(signal.SIGCONT)
    with control_group(process.pid, FREEZERS) as (group, file, freeze, thaw):
        (group / file).write_text(freeze)
        time.sleep(0.1)
        report = dump("-p", process.pid)
        (group / file).write_text(thaw)
    assert report["answer"] == "stopped" and threads(report)[process.pid].get("frozen")


def test_a_main_thread_that_has_ended(started):
    process, _ = start(started, sys.executable, "-c", "import ctypes, threading, time\n"
                       "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
                       "print('ready', flush=True)\n"
                       "ctypes.CDLL(None).syscall(60, 0)\n")
    assert wait_for(lambda: status(process.pid, "State").startswith("Z"))
    report = dump("-p", process.pid)
    ended = threads(report)[process.pid]
    assert ended["state"] == "Z" and not ended["stack"]
    assert report["verdict"].startswith("WAITS FOR the end of a sleep")


def test_watch(started, script, tmp_path):
    """Until a thread is at another place, or for so long."""
    _, (_, pid, _) = start(started, sys.executable, script, 1)
    report = dump("-p", pid, "--watch", "1s")
    assert report["taken"]["watched_ns"] >= 1e9 and not any("moved_from" in t for t in threads(report).values())
    moves = tmp_path / "moves.py"
    moves.write_text("import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.3)\n    time.sleep(0.4)\n")
    process, _ = start(started, sys.executable, moves)
    report = dump("-p", process.pid, "--watch", "20s")
    main = threads(report)[process.pid]
    assert report["taken"]["watched_ns"] < 20e9
    assert {main["moved_from"]["line"], lines(main, "moves.py")[0][1]} == {4, 5}


def test_what_cannot_be_dumped(started):
    process, _ = start(started, sys.executable, "-c", "print('ready', flush=True); input()")
    process.kill()
    process.wait()
    gone = run("dump", "-p", process.pid)
    assert gone.returncode == 1 and "no process" in gone.stderr and len(gone.stderr.splitlines()) == 1
    kernel = run("dump", "-p", 2)
    assert kernel.returncode == 1 and "kernel thread" in kernel.stderr
    assert run("dump").returncode == 2
    assert run("dump", "-p", os.getpid(), "-f", "csv").returncode == 2
    denied = run_unprivileged("dump", "-p", os.getpid())
    assert denied.returncode == 77 and "sudo" in denied.stderr


@needs_py_spy
def test_same_python_frames_as_py_spy(started, script):
    _, (_, pid, _) = start(started, sys.executable, script, 4)
    done = subprocess.run([PY_SPY, "dump", "--json", "--pid", pid], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"py-spy cannot read it: {done.stderr}")
    theirs = {t["os_thread_id"]: [(f["name"].split(".")[-1], f["line"]) for f in t["frames"]]
              for t in json.loads(done.stdout)}
    ours = {tid: [(f["function"].split(".")[-1], f["line"]) for f in t["stack"] if f["language"] == "python"]
            for tid, t in threads(dump("-p", pid)).items()}
    assert ours == theirs


TASKS = """
import asyncio
async def leaf():
    await asyncio.sleep(600)
async def fetch():
    await leaf()
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(fetch(), name="fetch-1")
        asyncio.get_running_loop().call_later(0.2, lambda: print("ready", flush=True))
asyncio.run(main())
"""


def test_asyncio_tasks(started):
    """The tasks of an event loop, with their coroutines and who awaits whom."""
    python = shutil.which("python3.14")
    if not python:
        pytest.skip("tasks are shown from CPython 3.14 on: this Python is older")
    process, _ = start(started, python, "-c", TASKS)
    main, fetch = dump("-p", process.pid)["processes"][0]["tasks"]
    assert fetch["name"] == "fetch-1" and fetch["awaited_by"] == [main["id"]]
    assert [(f["function"], f["line"]) for f in fetch["stack"][-2:]] == [("leaf", 4), ("fetch", 6)]
    assert "awaited_by" not in main and main["stack"][-1]["function"] == "main" and main["tid"] == process.pid
