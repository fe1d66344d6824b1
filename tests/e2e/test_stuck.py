# SPDX-License-Identifier: BSD-2-Clause
"""perfx-trace dump of programs that hang: what each thread waits for, who must act, and the answer."""
import ctypes
import os
import re
import socket
import subprocess
import time

import pytest

from conftest import PERFX, TOP, WORKLOADS, wait_for
from test_dump import dump, threads
from trainers import has_torch

PYTHON = "/usr/bin/python3"


class Stuck:
    """A program, its "expect FUNCTION KEY VALUE" lines, and what follows "ready PID"."""

    def __init__(self, *argv, **popen):
        self.process = subprocess.Popen([*map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        **popen)
        self.known = {}
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "ready":
                self.pid, *self.more = map(int, rest)
                break
            self.known[rest[0], rest[1]] = int(rest[2])

    def dump(self, enough=lambda report: True):
        """The first dump that is enough, by which all threads wait."""
        reports = []

        def taken():
            reports.append(dump("-p", self.pid))
            return enough(reports[-1])

        wait_for(taken, 10)
        return reports[-1]

    def end(self):
        """One with ranks ends them; children of the others end with their parent."""
        self.process.stdin.close()
        if not self.more:
            self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture(name="stuck")
def fixture_stuck():
    started = []

    def start(*argv, **popen):
        started.append(Stuck(*argv, **popen))
        return started[-1]

    yield start
    for program in started:
        program.end()


@pytest.fixture(name="case")
def fixture_case(stuck):
    return lambda *argv: stuck(WORKLOADS / "stuck", *argv)


def is_deadlock(report):
    return report["answer"] == "deadlock"


def waits_of(report, kind):
    return [t for t in threads(report).values() if t.get("target", {}).get("kind") == kind]


def has(kind, count=1):
    return lambda report: len(waits_of(report, kind)) >= count


@pytest.mark.parametrize("name,count", [("cross", 2), ("three", 3), ("itself", 1)])
def test_mutexes_in_a_circle(case, name, count):
    """Both locks, threads and lines."""
    program = case(name)
    tids = [program.known["take_next", f"tid{i}"] for i in range(count)]
    report = program.dump(is_deadlock)
    verdict = report["verdict"]
    assert verdict.startswith(f"DEADLOCK of {count} thread"), verdict
    (deadlock,) = report["deadlocks"]
    assert sorted(t["tid"] for t in deadlock) == sorted(tids)
    found = threads(report)
    addresses = set()
    for i, tid in enumerate(tids):
        target = found[tid]["target"]
        assert target["kind"] == "mutex" and target["tid"] == tids[(i + 1) % count]
        addresses.add(re.match(r"mutex at stuck\+0x([0-9a-f]+)$", target["text"])[1])
        assert re.search(r"in take_next \(stuck\.c:\d+\) waits for mutex at", verdict)
        assert found[tid]["age_ns"] > 100e6
    assert len(addresses) == count


def test_gil_and_mutex(stuck):
    program = stuck(PYTHON, TOP / "tests/workloads/stuck_gil.py", "mutex")
    report = program.dump(is_deadlock)
    holder, wants = program.known["hold_mutex", "tid"], program.known["want_mutex", "tid"]
    found = threads(report)
    assert (found[holder]["target"]["kind"], found[holder]["target"]["tid"]) == ("gil", wants)
    assert (found[wants]["target"]["kind"], found[wants]["target"]["tid"]) == ("mutex", holder)
    assert {t["tid"] for t in report["deadlocks"][0]} == {holder, wants}
    assert "in hold_mutex (stuck_gil.py:" in report["verdict"] and "in want_mutex (stuck_gil.py:" in report["verdict"]


def test_processes_in_a_circle(case):
    """A parent waits for its child, whose output it does not read."""
    program = case("full_pipe")
    child = program.known["child", "pid"]
    report = program.dump(is_deadlock)
    found = threads(report)
    assert (found[program.pid]["target"]["kind"], found[program.pid]["target"]["pid"]) == ("child", child)
    assert (found[child]["target"]["kind"], found[child]["target"]["pid"]) == ("pipe", program.pid)
    assert f"to stuck (pid {program.pid})" in report["verdict"]


def test_owners_of_locks(case):
    """A writer, readers, and mutexes that have their owner elsewhere."""
    program = case("writer")
    owner = program.known["hold_and_rest", "tid"]
    report = program.dump(has("rwlock", 3))
    assert {t["target"]["tid"] for t in waits_of(report, "rwlock")} == {owner}
    assert f"; 3 threads wait for thread stuck ({owner})" in report["verdict"]
    assert "in rest (stuck.c:" in report["verdict"]
    (want,) = waits_of(case("readers").dump(has("rwlock")), "rwlock")
    assert want["target"]["text"].endswith(", held by 1 reader") and "tid" not in want["target"]
    program = case("kinds")
    assert [t["target"]["tid"] for t in waits_of(program.dump(has("mutex", 4)), "mutex")] == 4 * [program.pid]


def test_chain_and_join(case):
    program = case("chain")
    owner = program.known["hold_and_rest", "tid"]
    report = program.dump(lambda r: has("mutex")(r) and has("thread")(r))
    (wants,), (joins,) = waits_of(report, "mutex"), waits_of(report, "thread")
    assert wants["target"]["tid"] == owner and joins["target"]["tid"] == wants["tid"]
    assert joins["target"]["text"] == f"the end of thread {wants['tid']}"
    assert f"; 2 threads wait for thread stuck ({owner})" in report["verdict"]


def test_mutexes_of_other_processes(case):
    """One that is shared, and one that a thread held which fork() did not copy."""
    program = case("shared")
    (wants,) = waits_of(program.dump(has("mutex")), "mutex")
    assert wants["target"]["pid"] == wants["target"]["tid"] == program.known["child", "pid"]
    program = case("forked")
    (wants,) = waits_of(program.dump(has("mutex")), "mutex")
    assert wants["tid"] == program.known["child", "pid"] and "tid" not in wants["target"]
    report = program.dump(is_deadlock)
    assert report["verdict"].startswith("DEADLOCK of 1 thread: thread forked")
    assert "the process was forked while it held the mutex" in wants["target"]["text"]


def test_other_ends(case):
    """Pipes and sockets lead to the process that must act."""
    program = case("events")
    child = program.known["child", "pid"]
    report = program.dump(lambda r: has("events", 2)(r) and has("pipe", 2)(r))
    (read,) = [t for t in waits_of(report, "pipe") if t["tid"] != program.pid]
    assert read["target"]["pid"] == child and read["target"]["text"].endswith(f" from writer (pid {child})")
    for event in waits_of(report, "events"):
        assert event["target"]["pid"] == child, "a timer is nobody"
        assert "timerfd (descriptor" in event["target"]["text"] and "pipe:[" in event["target"]["text"]
    program = case("sockets")
    child, port = program.known["child", "pid"], program.known["receive", "port"]
    texts = {t["target"]["text"]: t["target"]["pid"] for t in waits_of(program.dump(has("socket", 2)), "socket")}
    assert set(texts.values()) == {child}
    (tcp,), (unix,) = ([t for t in texts if t.startswith(kind)] for kind in ("tcp", "unix"))
    assert re.search(rf" → 127\.0\.0\.1:{port} of peer \(pid {child}\)$", tcp)
    assert re.match(rf"unix socket:\[\d+\] of peer \(pid {child}\)$", unix)


def test_children_timers_and_file_locks(case, tmp_path):
    program = case("child")
    child = program.known["child", "pid"]
    report = program.dump(has("child"))
    (waits,) = waits_of(report, "child")
    assert waits["target"]["text"] == f"child awaited (pid {child}), which is stopped"
    assert report["verdict"].startswith("STOPPED: 1 of 3 threads: awaited")
    timers = waits_of(case("timers").dump(has("timer", 2)), "timer")
    left = {t["target"]["text"]: t["target"]["deadline_ns"] - time.monotonic_ns() for t in timers}
    assert 590e9 < left.pop("the end of a sleep of 10.0 min") < 600e9
    ((name, ends),) = left.items()
    assert re.match(r"timerfd \(descriptor \d+\) every 5\.00 min$", name) and 390e9 < ends < 400e9
    locked = tmp_path / "cache.lock"
    locked.touch()
    program = case("file_lock", locked)
    (waits,) = waits_of(program.dump(has("file_lock")), "file_lock")
    assert waits["target"]["pid"] == program.known["child", "pid"]
    assert waits["target"]["text"] == f"{locked}, held by locker (pid {program.known['child', 'pid']})"


def test_file_system_that_does_not_answer(stuck, tmp_path):
    """Its type and the path; the dump does not hang with it, in whatever mount namespace."""
    if not os.access("/dev/fuse", os.R_OK):
        pytest.skip("/dev/fuse is not to be had: this kernel")
    program = stuck(PYTHON, TOP / "tests/workloads/slow_file.py", tmp_path)
    report = program.dump(has("file"))
    (reads,) = waits_of(report, "file")
    assert reads["target"]["text"] == f"fuse:{tmp_path}/data"
    assert reads["doing"] == f"waits for disk (fuse:{tmp_path}/data)"
    assert reads["reason"] == "read" and reads["syscall"] == "read"


def test_stopped_by_a_debugger(case):
    program = case("readers")
    libc = ctypes.CDLL(None, use_errno=True)
    attach, detach = 16, 17
    if libc.ptrace(attach, program.pid, None, None):
        pytest.skip("ptrace is not allowed here")
    os.waitpid(program.pid, 0)
    report = dump("-p", program.pid)
    libc.ptrace(detach, program.pid, None, None)
    with open("/proc/self/comm", encoding="utf8") as comm:
        by = f"is stopped by {comm.read().strip()} (pid {os.getpid()}), which traces it (ptrace)"
    assert report["verdict"].startswith("STOPPED: 1 of 2 threads: ") and report["verdict"].endswith(by)


def test_locks_of_python(stuck):
    """They do not know their owners, and the report says so."""
    program = stuck(PYTHON, TOP / "tests/workloads/stuck_gil.py", "lock")
    program.dump(lambda r: has("lock", 4)(r))
    text = subprocess.run([PERFX, "dump", "-p", str(program.pid)], capture_output=True, text=True, check=True,
                          env=os.environ | {"COLUMNS": "200"}).stdout
    for function, words in (("want_lock", "a threading.Lock, which does not know its owner"),
                            ("want_event", "threading Event.wait"), ("want_item", "queue Queue.get"),
                            ("want_end", "threading Thread.join")):
        assert f"({program.known[function, 'tid']}) waits for {words}, for " in text


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


ELSEWHERE = {
    "sleep": r"in sleep_elsewhere \(stuck_ranks\.py:\d+\) waits for the end of a sleep of 10\.0 min",
    "read": r"in read_elsewhere \(stuck_ranks\.py:\d+\) waits for openat of .*/slow",
    "throw": r"waits for threading _shutdown",
    "barrier": r"in worker \(stuck_ranks\.py:\d+\)",
}


@pytest.mark.some(1)
@pytest.mark.skipif(not has_torch(PYTHON), reason=f"{PYTHON} has no torch (Debian: python3-torch)")
@pytest.mark.parametrize("how", ELSEWHERE)
def test_rank_elsewhere(stuck, how, tmp_path):
    slow = tmp_path / "slow"
    os.mkfifo(slow)
    program = stuck(PYTHON, TOP / "tests/workloads/stuck_ranks.py", 4, 2, *([how, slow] if how == "read" else [how]),
                    env=os.environ | {"MASTER_PORT": str(free_port())})
    report = program.dump(lambda r: r["answer"] == "rank_elsewhere")
    verdict = report["verdict"]
    assert verdict.startswith("RANK 2 OF 4 IS ELSEWHERE: thread "), verdict
    assert re.search(ELSEWHERE[how], verdict), verdict
    assert re.search(r"; 3 ranks are in all_reduce \(gloo\), for [\d.]+ m?s at least$", verdict), verdict
    odd, most = report["ranks"]
    assert [r["rank"] for r in odd["ranks"]] == [2] and [r["rank"] for r in most["ranks"]] == [0, 1, 3]
    assert odd["ranks"][0]["pid"] == program.more[2]


@pytest.mark.skipif(not has_torch(PYTHON), reason=f"{PYTHON} has no torch (Debian: python3-torch)")
@pytest.mark.long
def test_ranks_that_work(stuck):
    """Ranks that wait for each other in each step are no hang."""
    job = stuck(PYTHON, TOP / "tests/workloads/ranks.py", 2)
    assert {dump("-p", job.pid)["answer"] for _ in range(5)} <= {"computes", "waits", "waits_for_cpu"}
