# SPDX-License-Identifier: BSD-2-Clause
"""Call stacks compared with references: native stacks frame by frame with libdw and gdb, of programs
that wait or are stopped anywhere; Python frames with the program's own record of its threads; CPU time
of lines with the program's own clock."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import BUILD, EVERYTHING, TOP, WORKLOADS, wait_for
from test_samples import recording  # noqa: F401 pylint: disable=unused-import

# Each prints a line for each thread: {"tid", "addresses", "whole"}.
LIBDW = [BUILD / "e2e/dwfl_stacks"]
GDB = ["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-x", TOP / "tests/e2e/gdb_stacks.py", "-p"]
PYTHONS = sorted({os.path.realpath(python) for python in ("/usr/bin/python3", sys.executable)})
# make test runs one of them
FIRST = [PYTHONS[0], *(pytest.param(python, marks=pytest.mark.long) for python in PYTHONS[1:])]
STOPS = 24 if EVERYTHING else 8
ROUNDS_SECONDS = 0.2  # waiting threads are sampled twenty times a second

BUSY = """
import json, os, re, sys
data = {str(i): [i, {"a": str(i)}] for i in range(200)}
print("ready", os.getpid(), flush=True)
while True:
    text = json.dumps(data, indent=1, sort_keys=True)
    words = re.findall(r"[a-z]+|[0-9]+", text)
    sorted(words, key=lambda word: (len(word), word))
"""

STANDING = """
import json, os, queue, sys, threading, time

lock = threading.Lock()
lock.acquire()

class Model:
    def forward(self, layers):
        if layers:
            return self.forward(layers - 1)
        return lock.acquire()

def numbers():
    for i in range(3):
        yield i
    time.sleep(1000)

def key(value):
    queue.Queue().get()

def of_frame(frame):
    found = []
    while frame:
        code = frame.f_code
        found.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return found

work = [lambda: Model().forward(5), lambda: list(numbers()), lambda: sorted([1, 2], key=key),
        lambda: exec("[os.read(pipe, 1) for pipe in (os.pipe()[0],)]", {"os": os})]
threads = [threading.Thread(target=function, daemon=True) for function in work]
for thread in threads:
    thread.start()
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
frames = sys._current_frames()
print(json.dumps({thread.native_id: of_frame(frames[thread.ident]) for thread in threads}), flush=True)
sys.stdin.readline()
"""

LINES = """
import os, sys, time
part = range(20_000)
used = [0, 0, 0]
print("ready", os.getpid(), flush=True)

def burn(end_ns):
    before = time.thread_time_ns()
    while before < end_ns:
        sum(part); sum(part); sum(part); sum(part); sum(part)  # half
        middle = time.thread_time_ns()
        max(part), max(part)  # much
        later = time.thread_time_ns()
        min(part)  # little
        after = time.thread_time_ns()
        used[0] += middle - before
        used[1] += later - middle
        used[2] += after - later
        before = after

sys.stdin.readline()
burn(time.thread_time_ns() + 10_000_000_000)
print(*used, flush=True)
sys.stdin.readline()
"""


@pytest.fixture(name="script")
def fixture_script(tmp_path):
    """Starts a Python program that prints "ready PID"."""
    started = []

    def start(python, text):
        path = tmp_path / "script.py"
        path.write_text(text)
        process = subprocess.Popen([python, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == f"ready {process.pid}\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def say(process, line="go"):
    process.stdin.write(line + "\n")
    process.stdin.flush()


# --- native frames ---


def is_stopped(pid):
    return all("\nState:\tT" in task.read_text() for task in pathlib.Path(f"/proc/{pid}/task").glob("*/status"))


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        assert wait_for(lambda: is_stopped(pid))
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def look(pid, referee):
    """The reference's stacks of a stopped process, and a span of time in which it was also sampled."""
    begin_ns = time.monotonic_ns()
    time.sleep(ROUNDS_SECONDS)
    end_ns = time.monotonic_ns()
    done = subprocess.run([*referee, str(pid)], capture_output=True, text=True, check=True, timeout=60)
    threads = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"tid"')]
    return begin_ns, end_ns, {t["tid"]: t["addresses"] for t in threads if t["whole"]}


def is_same(sample, addresses):
    """An instruction that follows Python frames is recorded as the return address behind it."""
    first = {addresses[0], addresses[0] + bool(sample["python"])}
    return sample["addresses"][0] in first and sample["addresses"][1:] == addresses[1:]


def compared(samples, looks):
    """The number of stacks that equal the reference's, and the others. Frames without rules, which both
    may guess, are left out."""
    same, different = 0, []
    for begin_ns, end_ns, stacks in looks:
        seen = {s["tid"]: s for s in samples if begin_ns < s["time_ns"] < end_ns and s["complete"]}
        for tid, addresses in stacks.items():
            if tid not in seen or seen[tid]["guessed"]:
                continue
            if is_same(seen[tid], addresses):
                same += 1
            else:
                different.append((addresses, seen[tid]["addresses"], seen[tid]["stack"]))
    return same, different


def assert_same_wherever_stopped(pid, r, seconds):
    """Stops a running process again and again, at least `seconds` apart."""
    looks = []
    for i in range(STOPS):
        time.sleep(seconds + i / 300)
        with stopped(pid):
            looks.append(look(pid, LIBDW))
    samples, _ = r.stop()
    same, different = compared(samples, looks)
    assert not different
    assert same > STOPS / 2  # the others: a table that was not ready, or a process without a CPU


@pytest.mark.some(1)  # the next tests compare with libdw
@pytest.mark.parametrize("referee", [GDB, LIBDW], ids=["gdb", "libdw"])
def test_threads_that_wait(referee, program, recording):  # noqa: F811
    assert shutil.which(referee[0]), f"install {referee[0]}"
    p = program(WORKLOADS / "standing")
    r = recording("-p", p.pid)
    p.go(3)  # its tables are requested
    looks = [look(p.pid, referee)]
    samples, _ = r.stop()  # and not p.finish(): a stop ends some of its waits
    same, different = compared(samples, looks)
    assert not different and same == len(looks[0][2]) > 2  # libdw may find the process ended


@pytest.mark.parametrize("python", FIRST)
def test_stopped_anywhere_as_libdw_sees_it(python, script, recording):  # noqa: F811
    p = script(python, BUSY)
    r = recording("-p", p.pid)
    time.sleep(1)
    assert_same_wherever_stopped(p.pid, r, 0.02)


def test_trainer_as_libdw_sees_it(program, recording):  # noqa: F811
    """Debian's PyTorch: operators, threads of OpenMP and autograd."""
    p = program("/usr/bin/python3", TOP / "tests/workloads/train_cnn.py", "--gate", "--quiet", "--workers", "0")
    r = recording("-p", p.pid)
    p.say("run 1000000")
    time.sleep(2)
    assert_same_wherever_stopped(p.pid, r, 0.05)


# --- Python frames ---


@pytest.mark.parametrize("python", PYTHONS)
def test_python_frames_as_the_program_sees_them(python, script, recording):  # noqa: F811
    """Methods, a generator, a callback of sorted, a comprehension in exec: each frame's function, file
    and line."""
    p = script(python, STANDING)
    r = recording("-p", p.pid)
    time.sleep(1)
    say(p)
    expected = {int(tid): frames for tid, frames in json.loads(p.stdout.readline()).items()}
    time.sleep(0.5)
    samples, _ = r.stop()
    assert len(expected) == 4
    for tid, frames in expected.items():
        mine = [s for s in samples if s["tid"] == tid]
        assert mine and mine[-1]["python"] == frames


@pytest.mark.long
@pytest.mark.parametrize("python", FIRST)
def test_cpu_time_of_lines(python, script, tracer):
    """Of ten seconds, within a fifth of the program's own clock."""
    p = script(python, LINES)
    t = tracer(p.pid, "--memory", "off", "--no-calibrate")
    say(p)
    own_ns = [int(ns) for ns in p.stdout.readline().split()]
    (process,) = t.stop()["processes"]
    sampled_ns = {row["line"]: row["on_cpu_ns"] for row in process["lines"]
                  if row["file"].endswith("script.py")}
    text = LINES.splitlines()
    for comment, ns in zip(("# half", "# much", "# little"), own_ns):
        line = next(i for i, line in enumerate(text, 1) if comment in line)
        assert sampled_ns[line] == pytest.approx(ns, rel=0.2), (comment, own_ns, sampled_ns)
