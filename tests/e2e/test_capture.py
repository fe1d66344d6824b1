# SPDX-License-Identifier: BSD-2-Clause
"""The capture file: its contents after a recording that ends badly, its size, and that its report
equals the live one."""
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest
from conftest import EVERYTHING, PERFX, WORKLOADS, Program, ended, run, total, until_attached, wait_for

KILLS = int(os.environ.get("PERFX_KILLS", "12" if EVERYTHING else "4"))
OFTEN = 50000  # calls of sgemm_ for each "go" of often.c
FUNCTION = "tinyblas.so:sgemm_"


class Busy:
    """A program that calls FUNCTION again and again, with pauses; counts calls until a given time."""

    def __init__(self, rest_s=0):
        self.program = Program(WORKLOADS / "often", "sgemm_")
        self.pid = self.program.pid
        self.rounds = []  # when each ended
        self.rest_s = rest_s
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.stop.wait(self.rest_s):
            self.program.go()
            self.rounds.append(time.monotonic())

    def calls(self, until=None):
        return OFTEN * sum(until is None or when <= until for when in list(self.rounds))

    def end(self):
        self.stop.set()
        self.thread.join()
        self.program.finish()


@pytest.fixture
def busy():
    program = Busy(rest_s=0.02)
    yield program
    program.end()


def recording(pid, file, *options):
    """Peaks are given, so there is no message about missing measurements."""
    options += ("--peak-flops", "f32:1T,f64:1T", "--peak-bandwidth", "10GB")
    return subprocess.Popen([PERFX, "record", "-p", str(pid), "-d", "60", "--no-calibrate", "-F", FUNCTION,
                             "-o", str(file), *options], stderr=subprocess.PIPE, text=True)


def check_cut(file, calls):
    """The report says that it is incomplete, and contains no call that was not made."""
    result = run("report", file, "-f", "json")
    assert result.returncode == 0, result.stderr
    assert len(result.stderr.splitlines()) <= 1, result.stderr
    report = json.loads(result.stdout)
    assert report["capture"]["partial"] and "truncated" in report["capture"]["partial_reasons"]
    assert total(report, "sgemm_", "calls") <= calls
    assert "Partial: " in run("report", file).stdout
    return report


def test_killed_at_any_moment(busy, tmp_path):
    """kill -9 during attaching, at the start, and later."""
    chance = random.Random(8)
    reported = 0
    for i in range(KILLS):
        file = tmp_path / f"{i}.perfx"
        tracer = recording(busy.pid, file)
        if i % 2:  # the time of attaching depends on the load of this machine
            until_attached(tracer)
        time.sleep(chance.uniform(0, 1.2))
        tracer.send_signal(signal.SIGKILL)
        tracer.communicate()
        assert tracer.returncode == -signal.SIGKILL
        if not file.exists():
            continue
        if not file.stat().st_size:  # before anything was recorded
            result = run("report", file)
            assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
            continue
        report = check_cut(file, busy.calls() + OFTEN)
        reported += total(report, "sgemm_", "calls") > 0
        file.unlink()
    assert reported or KILLS < 4, "none of them got to a call"


@pytest.mark.long
def test_killed_tracer_loses_a_second_at_most(busy, tmp_path):
    file = tmp_path / "run.perfx"
    tracer = recording(busy.pid, file)
    until_attached(tracer)
    before = busy.calls() + OFTEN  # the current round may be partly recorded
    assert wait_for(lambda: busy.calls() > before + 20 * OFTEN, 60)
    until = time.monotonic()
    time.sleep(1.5)
    tracer.send_signal(signal.SIGKILL)
    tracer.communicate()
    report = check_cut(file, busy.calls() + OFTEN)
    assert total(report, "sgemm_", "calls") >= busy.calls(until) - before
    assert report["losses"]["ring_drops"] == 0


@pytest.fixture
def small_disk():
    place = tempfile.mkdtemp(prefix="perfx-full-", dir="/tmp")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True).returncode:
        os.rmdir(place)
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)
    os.rmdir(place)


def test_disk_full(busy, small_disk, tmp_path):
    """One line, exit 1, and the written part can be reported."""
    file = os.path.join(small_disk, "run.perfx")
    tracer = recording(busy.pid, file)
    lines = tracer.stderr.read().splitlines()
    assert ended(tracer) == 1
    assert len(lines) == 2, lines
    assert ": tracing " in lines[0]
    assert file in lines[1] and "no space left" in lines[1] and "can be reported" in lines[1]
    report = check_cut(shutil.copy(file, tmp_path), busy.calls() + OFTEN)
    assert total(report, "sgemm_", "calls") > 0


@pytest.mark.long
def test_max_size(busy, tmp_path):
    """A whole recording, ended early: one line, exit 0, nothing partial."""
    file = tmp_path / "run.perfx"
    tracer = recording(busy.pid, file, "--max-size", "1M")
    lines = tracer.stderr.read().splitlines()
    assert ended(tracer) == 0
    assert len(lines) == 2, lines
    assert "--max-size is reached" in lines[1] and str(file) in lines[1]
    result = run("report", file, "-f", "json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert not report["capture"]["partial"]
    assert 0 < total(report, "sgemm_", "calls") < busy.calls() + OFTEN
    # without it, a minute of this is some tens of megabytes
    assert (1 << 19) < file.stat().st_size < (2 << 20)


@pytest.mark.parametrize("options, message", [
    (["-o", "x.json", "--max-size", "1M"], "--max-size"),
    (["-o", "x.perfx", "--capture", "y.perfx"], "--capture"),
    (["-o", "x.json", "--capture", "y.perfx", "--max-size", "100"], "1M at least"),
    (["-o", "x.json", "--capture", "y.perfx", "--max-size", "much"], "not a size")])
def test_options(options, message):
    result = run("-p", os.getpid(), *options)
    assert result.returncode == 2
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


REPLAYED = {
    "ranges train": ["-F", "ranges:{work,pushes,pops}"],
    "exceptions": ["-F", "exceptions:{*catcher,*rethrower,*switched,*tail,*guarded,*frame,*method}"],
    "memory_many 50000": ["--memory", "all", "-F", "memory_many:*"]}
# make test runs each program and each format
REPLAYED_FIRST = {("ranges train", "txt"), ("exceptions", "md"), ("memory_many 50000", "json")}


@pytest.mark.parametrize("name, form", [
    pytest.param(name, form, marks=[] if (name, form) in REPLAYED_FIRST else [pytest.mark.long])
    for name in REPLAYED for form in ("json", "md", "txt", "html")])
def test_live_report_is_the_replayed_one(name, form, program, tmp_path):
    """Equal to the byte, because the same code analyzes and writes the same records."""
    workload, *arguments = name.split()
    p = program(WORKLOADS / workload, *arguments)
    live, capture = tmp_path / f"live.{form}", tmp_path / "run.perfx"
    tracer = subprocess.Popen([PERFX, "-p", str(p.pid), "-d", "60", "--interval", "50ms", *REPLAYED[name],
                               "-o", str(live), "--capture", str(capture)], stderr=subprocess.PIPE, text=True)
    until_attached(tracer)
    p.go()
    p.finish()
    assert ended(tracer) == 0, tracer.stderr.read()
    replayed = tmp_path / f"replayed.{form}"
    assert run("report", capture, "-o", replayed).returncode == 0
    assert live.stat().st_size > 1000
    assert replayed.read_bytes() == live.read_bytes()
