# SPDX-License-Identifier: BSD-2-Clause
"""Samples by the clock: shares of CPU time that the program knows, positions of threads, and the
absence of side effects."""
import collections
import json
import os
import pathlib
import subprocess
import time

import pytest
from conftest import BUILD, PERFX, WORKLOADS, run, until_attached

SAMPLES = BUILD / "e2e/samples"
ON_CPU, WAITING, RUNNABLE = 1, 2, 3
REASONS = {"read": 1, "poll": 3, "epoll": 4, "futex": 5, "sleep": 7, "wait": 8}
QUIET = ["--memory", "off", "--host-level", "0", "--no-calibrate"]


class Recording:
    """perfx-trace record; its samples after the end."""

    def __init__(self, path, *options):
        argv = [PERFX, "record", "-d", "120", "-o", path, *QUIET, *options]
        self.path = path
        self.process = subprocess.Popen([str(a) for a in argv], stderr=subprocess.PIPE, text=True)
        self.lines = until_attached(self.process)

    def stop(self):
        """The samples, and the END record."""
        if self.process.poll() is None:
            self.process.send_signal(2)
        return self.end()

    def end(self):
        _, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, "".join(self.lines) + err
        out = subprocess.run([SAMPLES, self.path], stdout=subprocess.PIPE, text=True, check=True).stdout
        *samples, last = [json.loads(line) for line in out.splitlines()]
        return samples, last

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def recording(tmp_path):
    made = []

    def start(*options):
        made.append(Recording(tmp_path / f"{len(made)}.perfx", *options))
        return made[-1]

    yield start
    for r in made:
        r.kill()


def on_cpu_ns(samples, functions, frames=2):
    """Time on a CPU with one of the functions among the first frames, by function. Inlined functions
    are frames."""
    found = collections.Counter()
    for s in samples:
        if s["state"] == ON_CPU:
            found.update({f: s["interval_ns"] for f in s["stack"][:frames] if f in functions})
    return found


@pytest.mark.parametrize("name, case, frames, points", [
    ("shares", "leaf", 2, 4),
    ("shares", "periodic", 5, 5),
    pytest.param("shares", "called", 3, 4, marks=pytest.mark.long),
    pytest.param("shares-fp", "called", 3, 4, marks=pytest.mark.long),
])
def test_shares_of_cpu_time(name, case, frames, points, program, recording):
    """60, 30 and 10 %, also for a program whose period is the sampling interval (17 points off if both
    have one period); the sum is the program's CPU time within a tenth."""
    p = program(WORKLOADS / name, case)
    r = recording("-p", p.pid, "--sample", "499")
    p.go(4)  # of 2,000 samples four points are more than three standard errors
    expected = {f: ns for (f, key), ns in p.finish().items() if key == "cpu_ns"}
    samples, _ = r.stop()
    found = on_cpu_ns(samples, expected, frames)
    used = sum(expected.values())
    print(expected, found)
    for function, ns in expected.items():
        assert abs(found[function] / sum(found.values()) - ns / used) < points / 100, function
    assert abs(sum(found.values()) / used - 1) < 0.1
    assert sum(s["complete"] for s in samples) > 0.99 * len(samples)
    (process,) = json.loads(run("report", r.path, "-f", "json").stdout)["processes"]
    assert process["samples"]["on_cpu"] == sum(s["state"] == ON_CPU for s in samples)
    assert process["samples"]["on_cpu_ns"] == sum(line["on_cpu_ns"] for line in process["lines"])


def test_io_uring(program, recording):
    """The kernel's workers are separate threads without a stack; a thread that waits for them is in
    io_uring_enter."""
    p = program(WORKLOADS / "io_workers")
    r = recording("-p", p.pid, "--sample", "499")
    p.go()
    p.finish()
    samples, _ = r.stop()
    (process,) = json.loads(run("report", r.path, "-f", "json", "--full").stdout)["processes"]
    workers = {t["tid"] for t in process["threads"] if t["comm"].startswith("iou-wrk-")}
    assert workers and process["pid"] not in workers
    of_workers = [s for s in samples if s["tid"] in workers]
    assert of_workers and not any(s["stack"] for s in of_workers)
    waits = [b for b in process["blocked"] if b["tid"] == process["pid"] and b["reason"] == "io_uring_enter"]
    assert sum(b["ns"] for b in waits) == pytest.approx(1e9, rel=0.2)


def test_libraries_in_turn_at_one_address(program, recording):
    """A sample has the library that was at its addresses then: 67 and 33 %, each within 5 points (four
    standard errors), nothing unknown. Calls count once their file is known, after its first load: a
    turn of both takes 21 ms, and the report says how late it was."""
    p = program(WORKLOADS / "turns")
    r = recording("-p", p.pid, "-F", "turn_?.so:turn_?", "--sample", "999")
    p.go(2)
    expected = p.finish()
    samples, _ = r.stop()
    names = ("turn_a", "turn_b")
    used = {name: expected[name, "cpu_ns"] for name in names}
    found = on_cpu_ns(samples, names)
    print(used, found)
    assert abs(found["turn_a"] / sum(found.values()) - used["turn_a"] / sum(used.values())) < 0.05
    assert sum(found.values()) / sum(used.values()) == pytest.approx(1, rel=0.15)
    (process,) = json.loads(run("report", r.path, "-f", "json").stdout)["processes"]
    calls = {f["name"]: f["calls"] for f in process["functions"]}
    late_ns = {pathlib.Path(late["path"]).stem: late["late_ns"] for late in process["attached_late"]}
    print(calls, late_ns)
    assert set(late_ns) == set(names)
    for name in names:
        assert 0 <= expected[name, "calls"] - calls[name] <= 3 + late_ns[name] / 21e6


def test_a_goroutine(program, recording):
    """Its stack reaches its start, although nothing calls that, and no table describes either."""
    p = program(WORKLOADS / "goroutine", "spins")
    r = recording("-p", p.pid, "--sample", "499")
    p.go()
    ((_, used_ns),) = p.finish().items()
    samples, _ = r.stop()
    mine = [s for s in samples if s["state"] == ON_CPU and s["stack"][:1] == ["goroutine_spins"]]
    assert sum(s["interval_ns"] for s in mine) == pytest.approx(used_ns, rel=0.1)
    assert {tuple(s["stack"]) for s in mine[1:]} == {("goroutine_spins", "goroutine_exit")}
    assert all(s["complete"] for s in mine[1:])


def test_generated_code(program, recording):
    """Its name comes from the process's own /tmp/perf-PID.map; a file of another user is ignored."""
    programs = {name: program(WORKLOADS / "generated") for name in ("generated_spin", "")}
    os.chown(f"/tmp/perf-{programs[''].pid}.map", 12345, 12345)
    r = recording("-p", ",".join(str(p.pid) for p in programs.values()), "--sample", "499")
    for p in programs.values():
        p.go()
    samples, _ = r.stop()
    for name, p in programs.items():
        ((_, used_ns),) = p.finish().items()
        mine = [s for s in samples if s["tid"] == p.pid and s["state"] == ON_CPU and s["stack"][:1] == [name]]
        assert sum(s["interval_ns"] for s in mine) == pytest.approx(used_ns, rel=0.15)


KERNEL_CODE = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) long probed(long number)
{
	__asm__ volatile("" : "+r"(number));
	return number * 5 + 3;
}

int main(void)
{
	struct timespec now;

	printf("%d\\n", getpid());
	fflush(stdout);
	for (long i = 0;; i = probed(i))
		for (int k = 0; k < 100; k++)
			clock_gettime(CLOCK_MONOTONIC, &now);
}
"""


def test_code_that_the_kernel_provides(tmp_path, recording):
    """The vDSO, and copies of probed instructions, which the kernel steps in a page of its own: neither
    is generated code without a name."""
    (tmp_path / "kernel_code.c").write_text(KERNEL_CODE)
    subprocess.run(["cc", "-O1", "-o", "kernel_code", "kernel_code.c"], cwd=tmp_path, check=True)
    p = subprocess.Popen([tmp_path / "kernel_code"], stdout=subprocess.PIPE, text=True)
    try:
        r = recording("-p", p.stdout.readline().strip(), "-F", "kernel_code:probed",
                      "--return", "exit", "--max-overhead", "off", "--sample", "499")
        time.sleep(0.7)  # 350 samples, half of them in each of the two
        samples, _ = r.stop()
    finally:
        p.kill()
        p.wait()
    innermost = collections.Counter(s["stack"][0] for s in samples if s["state"] == ON_CPU)
    assert innermost["clock_gettime"] and innermost["probed"], innermost
    assert "" not in innermost, innermost


@pytest.mark.alone  # beside other programs a thread waits for a CPU after its wait, which is correct
def test_threads_that_wait(program, recording):
    """Each is sampled in each round, with its reason and its place; so is the main thread, which reads
    its standard input. Together samples stand for the time of the recording."""
    p = program(WORKLOADS / "standing")
    r = recording("-p", p.pid)
    p.go(6)
    tids = {key: tid for (key, _), tid in p.finish().items()}
    samples, last = r.stop()
    assert last["lost"] == 0
    for reason, number in REASONS.items():
        of_thread = [s for s in samples if s["tid"] == tids[f"stands_in_{reason}"]]
        mine = [s for s in of_thread if s["state"] == WAITING]
        assert len(mine) > 20
        assert len(of_thread) - len(mine) <= 1, "each is woken once, at the end"
        assert {s["reason"] for s in mine} == {number}
        # threads that have waited since before the table was requested are unwound again
        assert f"stands_in_{reason}" in mine[-1]["stack"] and mine[-1]["complete"]
        whole_ns = sum(s["interval_ns"] for s in mine)
        assert 2.5e9 < whole_ns < 10e9
    futexes = {s["object"] for s in samples if s["reason"] == REASONS["futex"]}
    assert len(futexes) == 1 and 0 not in futexes


def test_no_samples(program, recording):
    p = program(WORKLOADS / "standing")
    r = recording("-p", p.pid, "--sample", "off")
    p.go()
    p.finish()
    assert r.stop() == ([], {"sampling": [0, 0], "lost": 0})


@pytest.mark.long
def test_two_tracers(program, recording):
    """Each has all samples; the end of one does not affect the other."""
    p = program(WORKLOADS / "shares", "leaf")
    first, second = recording("-p", p.pid), recording("-p", p.pid, "--sample", "200")
    p.go(2)
    early, _ = first.stop()
    p.go(2)
    p.finish()
    late, last = second.stop()
    assert last["sampling"][0] == 5000000
    names = {"sixty_leaf", "thirty_leaf", "ten_leaf"}
    assert abs(sum(on_cpu_ns(early, names).values()) / 2e9 - 1) < 0.15
    assert abs(sum(on_cpu_ns(late, names).values()) / 4e9 - 1) < 0.15


def test_children_and_short_threads(program, recording):
    """Hundreds of short processes and threads: no harm, and each process has its own samples."""
    p = program(WORKLOADS / "lifecycle", "helpers")
    r = recording("-p", p.pid, "--sample", "1000")
    p.go(10)
    p.finish()
    samples, last = r.stop()
    assert last["lost"] == 0
    assert len({s["process"] for s in samples}) > 5


def test_before_the_window(program, recording):
    """--wait, and the program never calls start: there are no samples."""
    p = program(WORKLOADS / "standing")
    r = recording("-p", p.pid, "--wait")
    p.go(1)
    samples, last = r.stop()
    assert samples == [] and last["sampling"][0]
    p.finish()
