# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder, and time slices of a capture: when files are written, and their contents."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

import pytest
from conftest import EVERYTHING, PERFX, WORKLOADS, ended, run, status, total, until_attached, wait_for
from test_capture import FUNCTION, OFTEN, Busy

KILLS = int(os.environ.get("PERFX_KILLS", "12" if EVERYTHING else "6"))


@pytest.fixture
def busy():
    program = Busy(rest_s=0.05)
    yield program
    program.end()


class Flight:
    """record --flight; the constructor returns when it is attached."""

    def __init__(self, pid, file, *options, ring="1s", what=("-F", FUNCTION, "--memory", "off")):
        self.file = file
        self.process = subprocess.Popen(
            [PERFX, "record", "-p", str(pid), "--no-calibrate", "--flight", ring, "-o", str(file), *what, *options],
            stderr=subprocess.PIPE, text=True)
        until_attached(self.process)

    def ask(self):
        self.process.send_signal(signal.SIGUSR1)

    def line(self):
        """The tracer's next message."""
        return self.process.stderr.readline().rstrip("\n")

    def stop(self, expect=0):
        """The messages until its end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        lines = self.process.stderr.read().splitlines()
        assert ended(self.process) == expect, lines
        return lines

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def flight():
    started = []

    def start(*argv, **more):
        started.append(Flight(*argv, **more))
        return started[-1]

    yield start
    for f in started:
        f.kill()


def report_of(file, *options):
    """The report, which must be complete."""
    result = run("report", file, "-f", "json", *options)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    report = json.loads(result.stdout)
    assert "truncated" not in report["capture"]["partial_reasons"]
    assert report["losses"]["undecoded"] == report["losses"]["truncated_bytes"] == 0
    return report


def duration(report):
    return report["capture"]["duration_ns"] / 1e9


def cpu(process):
    return process["cpu_user_ns"] + process["cpu_system_ns"]


def test_nothing_is_written_until_asked(busy, flight, tmp_path):
    """A signal writes the last half second and replaces an old file; two signals in quick succession
    write two files, and the end writes one."""
    file = tmp_path / "run.perfx"
    file.write_text("old")
    recorder = flight(busy.pid, file, ring="500ms")
    time.sleep(1.2)
    assert os.listdir(tmp_path) == ["run.perfx"] and file.read_text() == "old"
    recorder.ask()
    assert re.fullmatch(rf"perfx-trace: {file}: the last [5-9]\d\d ms of \d\.\d\d s, [\d.]+ KiB", recorder.line())
    recorder.ask()
    time.sleep(0.1)
    recorder.ask()
    for number in (2, 3):
        assert str(tmp_path / f"run.{number}.perfx") in recorder.line()
    (last,) = recorder.stop()
    assert str(tmp_path / "run.4.perfx") in last
    assert sorted(os.listdir(tmp_path)) == ["run.2.perfx", "run.3.perfx", "run.4.perfx", "run.perfx"]
    for number in (2, 3, 4):
        report_of(tmp_path / f"run.{number}.perfx")

    report = report_of(file)
    window = report["capture"]["part"]
    assert window["kind"] == "flight" and window["why"] == "SIGUSR1" and not window["memory_full"]
    assert window["after_ns"] > 0 and 0.5 <= duration(report) < 1
    assert 0 < total(report, "sgemm_", "calls") < busy.calls() + OFTEN
    (process,) = report["processes"]
    assert process["wall_ns"] == report["capture"]["duration_ns"]
    assert cpu(process) <= process["wall_ns"] * 1.2
    # hits are the window's: two per call, for entry and exit, or one that counts both
    hits = report["overhead"]["hits"]
    assert 0.9 < hits / total(report, "sgemm_", "calls") < 2.3
    text = run("report", file).stdout
    assert re.search(r"Flight recorder: the last [5-9]\d\d ms of \d\.\d\d s; reason for writing: SIGUSR1\.", text)
    part = report_of(file, "--since", "250ms")
    # the segment in progress is complete in the file
    assert 0 < part["capture"]["part"]["after_ns"] - window["after_ns"] <= 25 * 10**7
    assert 0 < total(part, "sgemm_", "calls") < total(report, "sgemm_", "calls")
    assert run("export", file, "-f", "chrome", "-o", tmp_path / "t.json").returncode == 0
    assert run("diff", file, tmp_path / "run.2.perfx").returncode == 0


def stop_in_a_tick(recorder, target):
    """Stops the tracer after it has read the rings and before it writes files: while it reads the CPU
    time of the program's threads."""
    def reads_usage():
        recorder.send_signal(signal.SIGSTOP)
        assert wait_for(lambda: status(recorder.pid, "State").startswith("T"))
        open_files = [os.readlink(file) for file in pathlib.Path(f"/proc/{recorder.pid}/fd").iterdir()]
        if any(path.startswith(f"/proc/{target.pid}/task") for path in open_files):
            return True
        recorder.send_signal(signal.SIGCONT)
        return False

    assert wait_for(reads_usage, 60)


def test_all_before_it_was_asked_for(program, flight, tmp_path):
    """The file also has calls that were still in the rings when it was requested."""
    target = program(WORKLOADS / "threads", "1000", "5")
    recorder = flight(target.pid, tmp_path / "run", "--interval", "10ms", ring="60s",
                      what=("-F", "threads:work*", "--memory", "off"))
    stop_in_a_tick(recorder.process, target)
    target.go()
    recorder.ask()
    recorder.process.send_signal(signal.SIGCONT)
    assert "the last" in recorder.line()
    report = report_of(tmp_path / "run")
    assert total(report, "work_nested", "calls") == 2 * 1000 * 5
    assert total(report, "work", "calls") == 4 * 1000 * 5


def test_a_ring_shorter_than_a_flush(busy, flight, tmp_path):
    recorder = flight(busy.pid, tmp_path / "run.perfx", ring="100ms")
    time.sleep(0.6)
    recorder.stop()
    report = report_of(tmp_path / "run.perfx")
    assert 0.1 <= duration(report) < 0.5
    assert total(report, "sgemm_", "calls") > 0


@pytest.mark.long
def test_memory_is_bounded(busy, flight, tmp_path):
    """A flight recorder of a minute with too little memory: its file is shorter, and says so."""
    recorder = flight(busy.pid, tmp_path / "run.perfx", "--max-size", "1M", ring="60s")
    before = int(status(recorder.process.pid, "VmRSS").split()[0])
    since = busy.calls()
    # 1 MiB holds 260,000 of these calls
    assert wait_for(lambda: busy.calls() > since + 350_000, 180)
    assert int(status(recorder.process.pid, "VmRSS").split()[0]) - before < 12 << 10
    (line,) = recorder.stop()
    assert "memory limit reached (--max-size)" in line
    report = report_of(tmp_path / "run.perfx")
    assert report["capture"]["part"]["memory_full"] and report["capture"]["part"]["after_ns"] > 0


@pytest.mark.long  # in make test, test_capture.py covers this
def test_killed_while_it_writes(busy, flight, tmp_path):
    """The name has the complete old or new file; a partial file has another name."""
    file = tmp_path / "run.perfx"
    for _ in range(KILLS):
        for old in tmp_path.iterdir():
            if old != file:
                old.unlink()
        recorder = flight(busy.pid, file)
        time.sleep(0.5)
        recorder.ask()
        time.sleep(random.uniform(0, 0.1))
        recorder.kill()
        if file.exists():
            report_of(file)
        assert set(os.listdir(tmp_path)) <= {"run.perfx", "run.perfx.part"}


def test_disk_full(busy, flight):
    """One line for each file, exit 1, the old file unchanged; the recorder continues."""
    place = tempfile.mkdtemp(prefix="perfx-full-", dir="/tmp")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "none", place], capture_output=True).returncode:
        os.rmdir(place)
        pytest.skip("no file system may be mounted here")
    try:
        file = os.path.join(place, "run.perfx")
        with open(file, "w", encoding="utf8") as old:
            old.write("old")
        recorder = flight(busy.pid, file)
        time.sleep(0.5)
        recorder.ask()
        line = recorder.line()
        assert file in line and "no space left" in line
        lines = recorder.stop(expect=1)
        assert len(lines) == 1 and "no space left" in lines[0]
        with open(file, encoding="utf8") as old:
            assert old.read() == "old"
        assert os.listdir(place) == ["run.perfx"]
    finally:
        subprocess.run(["umount", place], check=True)
        os.rmdir(place)


def test_a_target_that_dies(program, flight, tmp_path):
    target = program(WORKLOADS / "often", "sgemm_")
    recorder = flight(target.pid, tmp_path / "run.perfx")
    target.go()
    target.process.kill()
    line, killed = recorder.process.stderr.read().splitlines()
    assert f"process {target.pid} was killed by signal 9 (Killed)" in killed and "run.perfx" in line
    assert ended(recorder.process) == 3
    report = report_of(tmp_path / "run.perfx")
    assert report["capture"]["partial_reasons"] == ["target_killed"]
    assert total(report, "sgemm_", "calls") > 0


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["execs", "fork"])
def test_processes_that_come_and_go(name, program, flight, tmp_path):
    """A recording that fits into the buffer is complete; one that does not is still correct."""
    target = program(WORKLOADS / name)
    what = ("-F", f"{name}:*work", "--memory", "off")
    recorder = flight(target.pid, tmp_path / "run.perfx", ring="300ms", what=what)
    for _ in range(3):
        target.go()
        time.sleep(0.2)
    recorder.ask()
    recorder.line()
    target.finish()
    recorder.process.stderr.read()
    assert ended(recorder.process) == 0
    for file in tmp_path.iterdir():
        report = report_of(file)
        assert len(report["processes"]) >= 1
        for process in report["processes"]:
            assert process["wall_ns"] <= report["capture"]["duration_ns"]


def living(report):
    """Live bytes and blocks by domain, and their sites."""
    found = {}
    for process in report["processes"]:
        for memory in process.get("memory", []):
            places = sorted((h["live_bytes"], h["stack"][0]) for h in memory["hotspots"]
                            if h.get("live_bytes"))
            found[memory["domain"]] = (memory["current_bytes"], memory["current_count"], places)
    return found


@pytest.mark.long
def test_indices_are_used_again(program, flight, tmp_path, monkeypatch):
    """Indices of processes that have left the buffer are reused, and later counts stay exact."""
    monkeypatch.setenv("PERFX_DEBUG", "1")
    crowd, file = program(WORKLOADS / "crowd", "100"), tmp_path / "run.perfx"
    f = flight(crowd.pid, file, ring="4s", what=("-F", "crowd:crowd_*", "--memory", "off"))
    crowd.go()
    time.sleep(20)  # until they have left it, and ten seconds more
    crowd.go(2)
    f.ask()
    while "the last" not in f.line():
        pass
    report = report_of(file)
    of_each = [total(report, "crowd_work", "calls", p["pid"]) for p in report["processes"] if p["exec"]]
    assert of_each == [150] * len(of_each) and len(of_each) == 200
    assert report["losses"]["map_full"] == 0
    said = next(line for line in f.stop() if "indices:" in line)
    processes, processes_again, contexts, contexts_again = map(int, re.findall(r"\d+", said))
    assert processes_again >= 200 and processes + processes_again >= 600 > processes, said
    assert contexts_again >= 200 and contexts < 1200, said


def test_what_lives_since_long_before(program, flight, tmp_path):
    """As in a complete recording, the same blocks are live, from the same sites, although few were
    allocated."""
    target = program(WORKLOADS / "memory")
    what = ("-F", "memory:*", "--memory", "all")
    whole = subprocess.Popen([PERFX, "record", "-p", str(target.pid), "--no-calibrate", *what, "-d", "60",
                              "-o", str(tmp_path / "whole.perfx")], stderr=subprocess.PIPE, text=True)
    until_attached(whole)
    recorder = flight(target.pid, tmp_path / "run.perfx", ring="500ms", what=what)
    for _ in range(3):
        target.go()
    time.sleep(0.8)  # the ring has half a second, and a tick more
    recorder.stop()
    whole.send_signal(signal.SIGINT)
    assert ended(whole) == 0
    ring, all_of_it = report_of(tmp_path / "run.perfx"), report_of(tmp_path / "whole.perfx")
    assert living(all_of_it)["host"][0] > 0
    assert living(ring) == living(all_of_it)
    (memory,) = [m for m in ring["processes"][0]["memory"] if m["domain"] == "host"]
    assert memory["allocs"] == 0 and memory["peak_bytes"] == memory["current_bytes"]


TRAINING = ("--host-level", "1", "--memory", "off")


def test_a_slow_step_writes(program, flight, tmp_path):
    """One file, some time after the step."""
    target = program(WORKLOADS / "ranges", "train")
    recorder = flight(target.pid, tmp_path / "run.perfx", "--trigger", "step>300ms", ring="900ms", what=TRAINING)
    target.go()
    time.sleep(0.5)
    target.go()
    line = recorder.line()
    assert re.search(rf"step \d+ of process {target.pid} took \d+ ms, [\d.]+ times the median of [\d.]+ .s: "
                     rf"will be written to {tmp_path}/run.perfx in 300 ms$", line), line
    assert "run.perfx: the last" in recorder.line()
    (last,) = recorder.stop()
    assert "run.2.perfx" in last
    report = report_of(tmp_path / "run.perfx")
    assert re.match(r"step \d+ of process", report["capture"]["part"]["why"])
    (steps,) = [p["steps"] for p in report["processes"] if "steps" in p]
    assert steps["count"] >= 1 and steps["max_ns"] >= 0


def test_a_stall_writes(program, flight, tmp_path):
    """What each thread did when no step came."""
    target = program(WORKLOADS / "ranges", "train")
    recorder = flight(target.pid, tmp_path / "run.perfx", "--trigger", "stall>500ms", ring="5s", what=TRAINING)
    target.go()
    line = recorder.line()
    assert re.search(rf"no step of process {target.pid} for [\d.]+ m?s, after \d+ steps: ", line), line
    assert "run.perfx: the last" in recorder.line()
    recorder.stop()
    report = report_of(tmp_path / "run.perfx")
    assert re.match(r"no step of process", report["capture"]["part"]["why"])
    assert report["dump"]["answer"] == "waits" and report["dump"]["verdict"].startswith("WAITS FOR pipe:[")
    (main,) = [t for p in report["dump"]["processes"] for t in p["threads"] if t["tid"] == target.pid]
    assert main["syscall"] == "read" and main["age_ns"] > 400e6


@pytest.mark.long
def test_a_trigger_by_the_median(program, flight, tmp_path):
    target = program(WORKLOADS / "ranges", "train")
    recorder = flight(target.pid, tmp_path / "run.perfx", "--trigger", "step>1000x", ring="900ms", what=TRAINING)
    target.go()
    time.sleep(1)
    target.go()
    assert "times the median" in recorder.line()
    recorder.stop()
    assert (tmp_path / "run.perfx").exists()


@pytest.mark.parametrize("options, message", [
    (["--flight", "5s"], "record -o"),
    (["--flight", "5s", "-o", "-", "--capture", "x.perfx"], "record -o"),
    (["--flight", "5s", "-o", "x.json", "--capture", "x.perfx"], "record -o"),
    (["--flight", "none", "-o", "x.perfx"], "not a duration"),
    (["--trigger", "step>2x", "-o", "x.perfx"], "--flight"),
    (["--trigger", "fast", "--flight", "5s", "-o", "x.perfx"], "step>2x"),
    (["--since", "5s"], "report, export"),
    (["--flight", "5s", "-o", "/none/x.perfx"], "directory does not exist")])
def test_options(options, message):
    result = run("-p", os.getpid(), *options)
    assert result.returncode == (1 if "exist" in message else 2)
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


# --- parts of a capture ---


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """A capture of three seconds of calls."""
    file = tmp_path_factory.mktemp("parts") / "run.perfx"
    program = Busy(rest_s=0.05)
    try:
        result = run("record", "-p", program.pid, "-d", "3", "--no-calibrate", "--memory", "off", "-F", FUNCTION,
                     "-o", file)
        assert result.returncode == 0, result.stderr
    finally:
        program.end()
    return file


def end_of(report):
    """End of a slice, in ns of the recording."""
    return report["capture"]["part"]["after_ns"] + report["capture"]["duration_ns"]


def test_parts_add_up(capture):
    """Slices of whole segments: together neighbours have all calls, each once."""
    whole = report_of(capture)
    first = report_of(capture, "--until", "500ms")
    second = report_of(capture, "--since", f"{end_of(first) // 10**6 + 1}ms", "--until", "1800ms")
    third = report_of(capture, "--since", f"{end_of(second) // 10**6 + 1}ms")
    parts = [first, second, third]
    assert sum(total(p, "sgemm_", "calls") for p in parts) == total(whole, "sgemm_", "calls")
    assert sum(p["overhead"]["hits"] for p in parts) == whole["overhead"]["hits"]
    assert 0.5 <= duration(first) < 1.5 and duration(second) >= 0.3
    assert second["capture"]["part"] == {"kind": "view", "after_ns": end_of(first), "memory_full": False,
                                         "left_out_calls": 0}
    assert end_of(second) >= 1.8e9
    used = sum(cpu(p["processes"][0]) for p in parts)
    assert abs(used - cpu(whole["processes"][0])) < 1e7


def test_before_the_end(capture):
    report = report_of(capture, "--since", "-2s", "--until", "-1s")
    assert 1 <= duration(report) < 3
    text = run("report", capture, "--since", "-500ms").stdout
    assert re.search(r"Part of the recording, from 2\.\d\d s to 3\.\d\d s: whole segments .* is left out\.",
                     text.replace("\n", " "))


def test_a_part_for_other_tools(capture, tmp_path):
    """It has exactly the calls that end in it."""
    file = tmp_path / "part.trace.json"
    assert run("export", capture, "--since", "1s", "--until", "1500ms", "-o", file).returncode == 0
    calls = [e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]
    report = report_of(capture, "--since", "1s", "--until", "1500ms")
    assert len(calls) == total(report, "sgemm_", "calls")
    assert all(e["ts"] + e["dur"] <= duration(report) * 1e6 + 0.01 for e in calls)


@pytest.mark.parametrize("bounds", [["--since", "1h"], ["--since", "2s", "--until", "1s"]])
def test_there_is_no_such_part(capture, bounds):
    for verb in (["report"], ["export", "-f", "folded"]):
        result = run(verb[0], capture, *verb[1:], *bounds)
        assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
        assert "between --since and --until" in result.stderr
