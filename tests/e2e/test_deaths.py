# SPDX-License-Identifier: BSD-2-Clause
"""How processes end: what the report says of children that end in known ways, beside wait4's word."""
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from conftest import PERFX, WORKLOADS, control_group, run

MEMORY_LIMITS = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
# The kernel's counters of resident pages lag by 32 pages on each CPU or more; the peak at the end is exact.
LAG_BYTES = 2 << 20


class Child:
    """A child of workloads/deaths: what it said before its end, and what wait4 said after it."""

    def __init__(self, parent, way, meanwhile=None):
        parent.say(way)
        words = parent.hear().split()
        assert words[0] == "dies", words
        self.pid, self.tid, self.address = int(words[1]), int(words[2]), int(words[3], 16)
        if meanwhile:
            meanwhile(self.pid)
        pid, self.status, peak = map(int, parent.hear().split())
        assert pid == self.pid
        self.peak_bytes = peak * 1024

    def find(self, report):
        """Its process in the report, compared with wait4."""
        (process,) = [p for p in report["processes"] if p["pid"] == self.pid]
        assert process["wait_status"] == self.status
        assert self.peak_bytes <= process["rss_peak_bytes"] <= self.peak_bytes + LAG_BYTES
        return process["end"]


@pytest.fixture(name="small")
def a_small_file_system(tmp_path):
    """In memory, with room for 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def place_of(end, tid):
    """Where the thread was at its signal."""
    (thread,) = [t for t in end["threads"] if t["tid"] == tid]
    assert thread["by_signal"] and thread["before_ns"] < 1e9
    return thread["place"]


@pytest.mark.kernel
def test_crashes(program, tracer, tmp_path, small):
    parent = program(WORKLOADS / "deaths")
    t = tracer(parent.pid)
    file = tmp_path / "constant.bin"
    file.write_bytes(bytes(4 * 4096))
    wild = {way: Child(parent, f"{way} 0xdead1000") for way in ("write", "thread", "again")}
    null, stack = Child(parent, "write 0x10"), Child(parent, "overflow")
    constant = Child(parent, f"constant {file}")
    aborted, divided = Child(parent, "abort"), Child(parent, "divide 0")
    truncated = Child(parent, f"truncated {small}/short.bin")
    full = Child(parent, f"full {small}/batch.bin")
    report = t.stop()
    for child in wild.values():
        end = child.find(report)
        assert end["class"] == "crashed" and end["failed"]
        assert end["cause"] == "crashed by SIGSEGV at address 0xdead1000, where nothing is mapped"
        assert end["signal"]["address"] == child.address and end["signal"]["tid"] == child.tid
        assert place_of(end, child.tid).startswith("write_to (deaths.c:")
    assert null.find(report)["cause"] == "crashed by SIGSEGV at address 0x10: a null pointer"
    assert "the stack overflowed" in stack.find(report)["cause"]
    mapping = constant.find(report)["signal"]["mapping"]
    assert (mapping["permissions"], mapping["offset"], mapping["file_bytes"]) == ("r--", 4096 + 16, 4 * 4096)
    assert mapping["start"] == constant.address - 4096 - 16 and mapping["end"] == mapping["start"] + 4 * 4096
    assert aborted.find(report)["signal"]["sender"]["pid"] == aborted.pid
    assert "abort()" in aborted.find(report)["cause"]
    assert "integer division by zero" in divided.find(report)["cause"]
    end = truncated.find(report)
    assert "short.bin at 4.01 KiB, beyond its end at 3.91 KiB" in end["cause"]
    assert end["signal"]["address"] == truncated.address
    end = full.find(report)
    assert f"batch.bin, for which {small} has no room: 4.00 MiB of 4.00 MiB are used" in end["cause"]
    assert end["signal"]["mapping"]["storage"] == {"mount": str(small), "bytes": 4 << 20, "used_bytes": 4 << 20}


@pytest.mark.kernel
def test_who_ended_it(program, tracer):
    """The first failure is the verdict's, and the first finding of the parent; an end that the parent asks
    for is none."""
    parent = program(WORKLOADS / "deaths")
    t = tracer(parent.pid)
    calm, big = Child(parent, "exit 0"), Child(parent, "touch 64")
    killed = Child(parent, "wait", lambda pid: subprocess.run(["kill", "-9", str(pid)], check=True))
    ended = Child(parent, "term", lambda pid: subprocess.run(["kill", str(pid)], check=True))
    asked = Child(parent, "wait", lambda pid: os.kill(pid, signal.SIGTERM))
    status = Child(parent, "exit 7")
    report = t.stop()
    assert calm.find(report) == {"class": "exit", "failed": False, "cause": "exited with status 0", "code": 0}
    assert big.find(report)["class"] == "exit" and big.peak_bytes > 64 << 20
    end = killed.find(report)
    sender = end["signal"]["sender"]
    assert (sender["comm"], sender["ppid"]) == ("kill", os.getpid())
    assert end["cause"].startswith(f"was killed by SIGKILL from kill (pid {sender['pid']}) of ")
    assert "signal" not in status.find(report) and status.find(report)["code"] == 7
    end = ended.find(report)
    assert end["class"] == "killed" and end["code"] == 128 + signal.SIGTERM
    assert "after SIGTERM from kill" in end["cause"]
    assert asked.find(report)["class"] == "asked" and not asked.find(report)["failed"]
    (main,) = [p for p in report["processes"] if p["pid"] == parent.pid]
    first = main["findings"][0]
    assert (first["kind"], first["severity"]) == ("LostChild", "high")
    assert f"(pid {killed.pid}) was killed by SIGKILL from kill" in first["evidence"]
    assert "2 more failed after it" in first["evidence"]
    assert report["verdict"].startswith("KILLED: deaths (pid ")
    parent.finish()


@pytest.mark.kernel
def test_out_of_memory(program, tracer):
    parent = program(WORKLOADS / "deaths")
    t = tracer(parent.pid)
    with control_group(parent.pid, MEMORY_LIMITS) as (group, file):
        (group / file).write_text(str(24 << 20))
        child = Child(parent, "oom")
        report = t.stop()
    end = child.find(report)
    assert child.status == signal.SIGKILL and end["class"] == "out_of_memory"
    assert end["cgroup"]["path"] == f"/{group.name}" and end["cgroup"]["limit_bytes"] == 24 << 20
    assert 22 << 20 <= end["cgroup"]["used_bytes"] <= 24 << 20 and end["cgroup"]["oom_kills"] == 1
    assert [other["pid"] for other in end["cgroup"]["others"]] == [parent.pid]
    assert report["verdict"].startswith("OUT OF MEMORY: ") and f"/{group.name} used" in report["verdict"]


def test_many_short_children(program, tracer):
    """Also of those that end before they are attached; the target is unharmed."""
    parent = program(WORKLOADS / "deaths")
    t = tracer(parent.pid)
    children = [Child(parent, ("exit 0", "write 0xdead1000", "abort")[i % 3]) for i in range(150)]
    report = t.stop()
    classes = [child.find(report)["class"] for child in children]
    assert classes == ["exit", "crashed", "crashed"] * 50
    assert report["losses"]["control_drops"] == 0
    parent.finish()


def test_a_worker_that_is_killed(tmp_path):
    """A multiprocessing worker; its parent fails by that, with a status of its own."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent("""\
        import multiprocessing, os, subprocess, time
        def work(queue):
            while True:
                sum(range(1000))
                if queue and time.process_time() > 0.2:
                    queue = queue.put(os.getpid())
        if __name__ == "__main__":
            queue = multiprocessing.Queue()
            workers = [multiprocessing.Process(target=work, args=(queue,)) for _ in range(2)]
            for worker in workers: worker.start()
            pids = [queue.get() for _ in workers]
            subprocess.run(["kill", "-9", str(workers[1].pid)])
            workers[1].join()
            workers[0].terminate()
            raise RuntimeError(f"worker {workers[1].pid} exited unexpectedly")
        """))
    result = run("run", "--as-root", "-f", "json", "--full", "--", sys.executable, script)
    report = json.loads(result.stdout)
    assert result.returncode == 1 and "RuntimeError" in result.stderr
    assert not report["capture"]["partial"]
    (main,) = [p for p in report["processes"] if p.get("end", {}).get("class") == "status"]
    (killed,) = [p for p in report["processes"] if p.get("end", {}).get("class") == "killed"]
    (asked,) = [p for p in report["processes"] if p.get("end", {}).get("class") == "asked"]
    assert main["findings"][0]["kind"] == "LostChild" and main["end"]["code"] == 1
    assert f"python3 (pid {killed['pid']}) was killed by SIGKILL from kill" in main["findings"][0]["evidence"]
    assert asked["end"]["signal"]["sender"]["pid"] == main["pid"]
    assert any("work (train.py:" in t.get("place", "") for t in killed["end"]["threads"])


def test_a_program_that_dies_under_run(tmp_path):
    """Its report is about all of its life; the status is the program's."""
    ways = "abort\nwrite 0x10\n"
    text = subprocess.run([PERFX, "run", "--as-root", "--", WORKLOADS / "deaths"], input=ways, capture_output=True,
                          text=True, timeout=60, check=True).stdout
    assert "CRASHED: deaths" in text and "Ended processes" in text and "SIGABRT" in text
    # the names of a function that was not sampled before come from the parent
    script = tmp_path / "crash.py"
    script.write_text(textwrap.dedent("""\
        import ctypes, multiprocessing, os, time
        def never_seen_before():
            ctypes.string_at(0x1234500000)
        child = multiprocessing.Process(target=never_seen_before)
        child.start()
        child.join()
        while time.process_time() < 0.3:
            pass
        os.abort()
        """))
    result = run("run", "--as-root", "-f", "json", "--", sys.executable, script)
    report = json.loads(result.stdout)
    assert result.returncode == 128 + signal.SIGABRT
    assert not report["capture"]["partial"] and report["verdict"].startswith("CRASHED: python3 (pid ")
    main, child = report["processes"]
    assert [f["kind"] for f in main["findings"] if f.get("class") == "death"] == ["LostChild", "Died"]
    assert place_of(child["end"], child["pid"]) == "never_seen_before (crash.py:3)"
    assert place_of(main["end"], main["pid"]) == "<module> (crash.py:9)"
    (thread,) = main["end"]["threads"]
    assert any("abort" in frame for frame in thread["frames"])
