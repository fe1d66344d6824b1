# SPDX-License-Identifier: BSD-2-Clause
"""The cost of tracing is bounded, as the program itself sees it. Default data must be cheap: a function
that is called too often is reduced in steps, each with a message; data from before a reduction stays in
the report."""
import json
import os
import re
import subprocess
import threading
import time

import pytest
from conftest import (LINKS, PERFX, WORKLOADS, check_expectations, consistent, functions, patched_bytes,
                      readable, total)
from memories import consistent_memory, entries
from trainers import has_torch


def run_until(traced, tracer, *texts, seconds=60):
    """Runs the program until the tracer has printed one of these messages; returns all messages."""
    said = ""
    end = time.monotonic() + seconds
    while not any(text in said for text in texts):
        assert time.monotonic() < end, f"nobody says {texts}: {said}"
        traced.go()
        time.sleep(0.02)  # so that a function that is called seldom is not called often
        # past the buffer, which hides lines from select
        while readable(tracer.process.stderr, 0):
            chunk = os.read(tracer.process.stderr.fileno(), 4096).decode()
            assert chunk, f"the tracer has ended: {said}"
            said += chunk
    return said.splitlines()


def probes(report, name):
    return [p for p in report["overhead"]["probes"] if p["name"] == name]


@pytest.mark.some(2 * len(LINKS))
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name, how", [("sgemm_", "auto"), ("dgemm_", "exit"), ("sgemm_", "exit"), ("dgemm_", "auto"),
                                       ("XGBoosterUpdateOneIter", "auto"), ("XGBoosterUpdateOneIter", "exit")])
def test_called_too_often(name, how, link, links, program, tracer):
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    traced = program(WORKLOADS / "often", name)
    t = tracer(traced.pid, "--memory", "off", "--return", how, link=link, budget=True)
    before = patched_bytes(traced.pid)
    *steps, last = run_until(traced, t, "not traced since")
    assert re.fullmatch(rf"perfx-trace: overhead budget: {name} not traced since [\d.]+ s: -F 'tinyblas.so:{name}' keeps it", last)

    # its probes are removed, the others' are not; from here on calls cost nothing and are not counted
    left = patched_bytes(traced.pid)
    traced.go(3)
    expected = traced.finish()
    report = t.stop()
    consistent(report)
    check_expectations(report, expected)
    row, = functions(report, name)
    sites = [p for p in report["overhead"]["probes"] if p["name"] == name]
    assert 0 < row["calls"] <= expected[name, "at_most"] - 3 * 50000
    print(before, left, [(p["name"], p["at"], p["hits"]) for p in report["overhead"]["probes"]], steps, last)
    assert report["losses"]["detached_probes"] == len(sites) == before - left
    assert left == len(report["overhead"]["probes"]) - len(sites)
    given_up, = report["not_attached"]
    assert given_up["name"] == name and "too many calls for the default set" in given_up["reason"]
    # every hit of its entry is a call; calls without a time are not a loss
    assert row["calls"] == sum(p["hits"] for p in sites if p["at"] == "entry")
    assert row["timed"] > 0 and report["losses"]["untimed_calls"] == 0

    # times are dropped first; a message appears only if that lasts
    assert len(steps) <= 1 and all(f"{name} only counted since" in line for line in steps)


def test_an_order_is_an_order(program, tracer):
    """The same function, named by -F: all calls, at any cost."""
    traced = program(WORKLOADS / "often", "sgemm_")
    t = tracer(traced.pid, "-F", "tinyblas.so:sgemm_", budget=True)
    traced.go(3)
    expected = traced.finish()
    report = t.stop()
    consistent(report)
    assert total(report, "sgemm_", "calls") == total(report, "sgemm_", "timed") == 150000
    assert expected["sgemm_", "at_most"] == 150000
    assert report["losses"]["detached_probes"] == 0 and not report["not_attached"]


# --- memory ---

def host(report):
    entry, = [m for m in report["processes"][0]["memory"] if m["domain"] == "host"]
    return entry


def test_memory_steps_down(program, tracer):
    """By default the heap is sampled. If a program does little else than malloc, the recording is reduced
    in steps; a message names the last one, its effect and the option that forces the recording. If the
    program gets little CPU time, sampling for a tenth of the time is cheap enough."""
    traced = program(WORKLOADS / "memory_threads", "4", "50000")
    t = tracer(traced.pid, budget=True)
    tenth, nothing = "sampled for a tenth of the time since", "not recorded since"
    lines = run_until(traced, t, tenth, nothing)
    traced.finish()
    report = t.stop()
    *_, last = [line for line in lines if "host allocations" in line]
    assert re.fullmatch(rf"perfx-trace: overhead budget: host allocations(?: and time off the CPU)? ({tenth} [\d.]+ s: leaks cannot be placed|{nothing} [\d.]+ s: "
                        "their memory is not in the report); --memory sampled keeps them", last)
    assert host(report)["sampled"] and host(report)["allocs"] > 0


def test_frees_are_inferred(program, tracer):
    """Frees of tensors are reduced before allocations: a block counts as live until its memory is
    allocated again. Allocations stay exact, live bytes include the latest freed blocks, and leaks are
    still found."""
    traced = program(WORKLOADS / "memory_reused")
    t = tracer(traced.pid, "--max-overhead", "20%", "--interval", "100ms", budget=True)
    said = "\n".join(run_until(traced, t, "given out again"))
    before, seconds = patched_bytes(traced.pid), time.monotonic()
    while time.monotonic() < seconds + 5:
        traced.go()
    assert patched_bytes(traced.pid) == before, t.lines
    report = t.stop()
    expected = traced.finish()
    assert re.search(r"tensor allocations without frees since [\d.]+ s: a block counts as freed when its memory is given "
                     "out again; a higher --max-overhead keeps them", said)
    every, = re.search(r"call stacks of tensor allocations one in (\d+) since [\d.]+ s: counts and bytes stay exact", said).groups()
    assert 16 <= int(every) <= 1000, "of up to 40,000 a second a hundred"
    assert not [line for line in t.lines if "sampled" in line]
    tensors, = entries(report, "tensor")
    consistent_memory(report)
    assert (tensors["level"], tensors["bound"], tensors["sampled"]) == ("frees_inferred", "upper", False)
    assert tensors["frees_seen"] and "temporary" not in tensors
    assert tensors["allocs"] == expected["memory", "allocs"]
    assert tensors["allocated_bytes"] == expected["memory", "allocated_bytes"]
    assert tensors["current_count"] == expected["memory", "last_count"] + expected["memory", "kept_count"]
    assert tensors["current_bytes"] == expected["memory", "last_bytes"] + expected["memory", "current_bytes"]
    assert tensors["peak_bytes"] >= expected["memory", "peak_bytes"]
    leaks = [h for h in tensors["hotspots"] if h["leak"]]
    assert leaks and all("one_is_kept" in "".join(h["stack"]) for h in leaks), tensors["hotspots"]


def test_memory_goes_straight_to_the_level_that_fits(program, tracer):
    """If tensors alone cost many times the limit, levels with as many hits are skipped."""
    traced = program(WORKLOADS / "memory_reused")
    t = tracer(traced.pid, "--max-overhead", "0.1%", budget=True)
    lines = run_until(traced, t, "tensor allocations sampled", "tensor allocations not recorded",
                      "allocations and time off the CPU not recorded")
    traced.finish()
    t.stop()
    said = "".join(lines)
    assert "call stacks" not in said and "without frees" not in said, said


def test_memory_as_ordered(program, tracer):
    """An explicit level is kept at any cost: there is no message, and every block is recorded."""
    traced = program(WORKLOADS / "memory_threads", "2", "20000")
    t = tracer(traced.pid, "--memory", "all", budget=True)
    traced.go(3)
    expected = traced.finish()
    report = t.stop()
    assert not [line for line in t.lines if " since " in line]
    assert host(report)["allocs"] == expected["memory", "allocs"]
    assert not host(report)["sampled"]


# --- what the program itself sees ---

class Million:
    """tests/workloads/million: lines of [when, calls, CPU time]."""

    def __init__(self):
        self.process = subprocess.Popen([WORKLOADS / "million"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline().split()[1])
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            _, at, _, calls, _, cpu = line.split()
            self.lines.append((int(at), int(calls), int(cpu)))

    def cpu_per_call(self, since, until, rank=0.5):
        """CPU time of a call in ns: the median of tenths of a second, or another quantile."""
        costs = sorted(cpu / calls for at, calls, cpu in self.lines if since < at < until)
        return costs[int(len(costs) * rank)]


@pytest.fixture
def million():
    program = Million()
    time.sleep(1)
    yield program
    program.process.stdin.close()
    assert program.process.wait(10) == 0


@pytest.mark.alone
def test_a_million_calls_a_second_within_two_percent(million, tracer):
    """With an explicit limit, functions named by -F are reduced too: within a second the cost is below
    the limit, with a message; functions that are called seldom remain."""
    before = million.cpu_per_call(0, time.monotonic_ns(), rank=0.1)
    t = tracer(million.pid, "-F", "million:*", "--max-overhead", "2%", "--memory", "off", duration="4")
    start = time.monotonic_ns()
    report = t.report()
    during = million.cpu_per_call(start + 1e9, start + 3.9e9, rank=0.1)
    end = time.monotonic_ns()
    time.sleep(1)
    after = million.cpu_per_call(end, time.monotonic_ns(), rank=0.1)
    assert [line for line in t.lines if re.fullmatch(
        r"perfx-trace: overhead budget: often not traced since [\d.]+ s: a higher --max-overhead keeps it\n", line)], t.lines
    removed, = [n for n in report["not_attached"] if n["name"] == "often"]
    assert "--max-overhead" in removed["reason"]
    seldom, = functions(report, "seldom")
    assert seldom["timed"] == seldom["calls"] > 100
    # other programs only make calls more expensive; the difference between these two is the uncertainty
    # of the untraced time
    without, noise = (before + after) / 2, abs(before - after) / 2
    assert during < 1.02 * without + noise, f"{before} → {during} → {after} ns of CPU time a call"


@pytest.mark.alone
def test_observed_is_what_the_program_sees(million):
    """Steps with and without probes, against the program's own account."""
    before = million.cpu_per_call(0, time.monotonic_ns())
    run = subprocess.run([PERFX, "-p", str(million.pid), "-d", "2s", "-f", "json", "-F", "million:*",
                          "--step-range", "seldom", "--memory", "off"], capture_output=True, text=True,
                         check=True)
    overhead = json.loads(run.stdout)["overhead"]
    observed = overhead["observed"]
    end = time.monotonic_ns()
    during = million.cpu_per_call(end - 3e9, end - 2e9)
    assert observed["steps_without"] > 20 and observed["steps_with"] >= 3
    assert observed["percent"] == pytest.approx(100 * (observed["with_ns"] / observed["without_ns"] - 1))
    seen = 100 * (during / before - 1)
    assert observed["percent"] == pytest.approx(seen, rel=0.25, abs=observed["noise_percent"])


PING_PONG = """
import os, threading
there, back = os.pipe(), os.pipe()
def answer():
    while os.read(there[0], 1):
        os.write(back[1], b'x')
threading.Thread(target=answer, daemon=True).start()
print('ready', flush=True)
while True:
    os.write(there[1], b'x')
    os.read(back[0], 1)
"""


def test_waits_that_are_given_up_do_not_go_on(tracer):
    """No thread's wait in the report exceeds the time until waits were given up: less than the
    recording, and none for waits that had not ended."""
    traced = subprocess.Popen(["/usr/bin/python3", "-c", PING_PONG], stdout=subprocess.PIPE, text=True)
    try:
        assert traced.stdout.readline() == "ready\n"
        t = tracer(traced.pid, "--memory", "off", "--max-overhead", "0.5%", duration="2")
        report = t.report()
    finally:
        traced.kill()
        traced.wait()
    given_up, = [n for n in report["not_attached"] if n["name"] == "time off the CPU"]
    assert "removed during the recording" in given_up["reason"]
    process, = report["processes"]
    longest = max(b["max_ns"] for b in process["blocked"])
    print(t.lines, longest, sum(b["ns"] for b in process["blocked"]))
    assert sum(b["count"] for b in process["blocked"]) > 100
    assert longest < 0.5e9


# --- program time, and probes that stay ---

@pytest.fixture
def shared_cpu():
    """million on one CPU together with two programs that never wait: it gets a third of the CPU."""
    cpu = {min(os.sched_getaffinity(0))}
    burners = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"],
                                preexec_fn=lambda: os.sched_setaffinity(0, cpu)) for _ in range(2)]
    program = Million()
    for task in os.listdir(f"/proc/{program.pid}/task"):
        os.sched_setaffinity(int(task), cpu)
    yield program
    program.process.stdin.close()
    assert program.process.wait(10) == 0
    for burner in burners:
        burner.kill()
        burner.wait()


def test_the_limit_is_of_the_programs_own_time(shared_cpu, tracer):
    """A cost above the limit's share of the program's CPU time is reduced, even if it is below that
    share of wall time."""
    options = ["-F", "million:*", "--memory", "off"]
    report = tracer(shared_cpu.pid, *options, duration="2").report()
    process, = report["processes"]
    used = process["cpu_user_ns"] + process["cpu_system_ns"]
    spent = report["overhead"]["hits"] * report["overhead"]["ns_per_hit"]
    allowed = min(spent / used, 0.9) / 1.5
    limit = 100 * allowed / (1 - allowed)
    t = tracer(shared_cpu.pid, *options, "--max-overhead", f"{limit:.3g}%", duration="4")
    t.report()
    print(spent, used, limit, t.lines)
    assert [line for line in t.lines if "often " in line and "a higher --max-overhead keeps it" in line], t.lines


TRAINER = """
import sys, os, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(6)])
opt = torch.optim.SGD(net.parameters(), lr=1e-4)
x = torch.randn(4, 16)
print('ready', os.getpid(), flush=True)
for line in sys.stdin:
    for _ in range(100):
        net(x).square().mean().backward()
        opt.step()
        opt.zero_grad()
    print('done', flush=True)
"""


BACKWARD, OPTIMIZER = "torch::autograd::Engine::execute", "Optimizer.step#SGD.step"
VENV = os.path.join(os.environ.get("ML_VENV", "/nonexistent"), "bin", "python3")


@pytest.mark.some(1)
@pytest.mark.parametrize("python, by, options", [
    ("/usr/bin/python3", BACKWARD, []),
    ("/usr/bin/python3", BACKWARD, ["--step-range", BACKWARD]),
    (VENV, OPTIMIZER, []),
    (VENV, BACKWARD, ["--step-range", BACKWARD]),
], ids=["debian", "debian-named", "venv", "venv-named"])
def test_ends_of_steps_stay(tracer, python, by, options):
    """Under a limit that leaves nothing else, every step is still counted and timed. If PyTorch's
    optimizer names its range, it ends the steps: backward passes are no longer traced, nor are the
    destructors that end ranges once more."""
    if python == VENV and not os.path.exists(VENV):
        pytest.skip("ML_VENV names no virtual environment: make check-ml makes one")
    if not has_torch(python):
        pytest.skip(f"{python} has no torch (Debian: python3-torch)")
    traced = subprocess.Popen([python, "-c", TRAINER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert traced.stdout.readline().startswith("ready")

    def go():
        traced.stdin.write("go\n")
        traced.stdin.flush()
        assert traced.stdout.readline() == "done\n"

    said, turns = "", 0
    try:
        go()  # code that runs only once
        t = tracer(traced.pid, "--max-overhead", "0.1%", *options)
        end = time.monotonic() + 60
        while "at::_ops::addmm::call" not in said or "not traced since" not in said:
            assert time.monotonic() < end, said
            go()
            turns += 1
            while readable(t.process.stderr, 0):
                said += os.read(t.process.stderr.fileno(), 4096).decode()
        end = time.monotonic() + (5 if python == VENV else 2)  # the message does not name all removed probes
        while time.monotonic() < end:
            go()
            turns += 1
        report = t.stop()
    finally:
        traced.kill()
        traced.wait()
    process, = report["processes"]
    steps = process["steps"]
    assert steps["by"] == by
    assert steps["count"] in (100 * turns - 1, 100 * turns)
    assert total(report, by, "timed") == 100 * turns
    if python == VENV:  # two ranges a step
        destroyed = sum(p["hits"] for p in report["overhead"]["probes"] if "::~PythonRecordFunction" in p["name"])
        assert (destroyed < 200 * turns) == (by == OPTIMIZER), destroyed
    if by == OPTIMIZER:
        assert "backward" not in steps["breakdown"] and "observed" not in report["overhead"]
        assert 0 < total(report, BACKWARD, "timed") < 100 * turns
        assert steps["breakdown"]["optimizer"] > 0


MLP = """
import torch
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(96, 96) for _ in range(6)])
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
x = torch.randn(48, 96)
print("ready", flush=True)
while True:
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("limit", ["0.5%", "1%", "100%"])
def test_steps_have_whole_figures_or_none(limit, tmp_path):
    """A small MLP is too fast for the budget: at some time products are no longer measured. FLOPs per
    step are exact for the steps before, or absent with the reason; so are the phases."""
    python = "/usr/bin/python3"
    if not has_torch(python):
        pytest.skip(f"{python} has no torch (Debian: python3-torch)")
    with subprocess.Popen([python, "-c", MLP], stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            result = subprocess.run([PERFX, "-p", str(process.pid), "-d", "2", "--max-overhead", limit,
                                     "-o", tmp_path / "report.json"], capture_output=True, text=True, timeout=120,
                                    check=False)
        finally:
            process.kill()
    assert result.returncode == 0, result.stderr
    process, = json.loads((tmp_path / "report.json").read_text())["processes"]
    steps, compute = process["steps"], process["compute"]
    assert steps["count"] - 1 == steps["whole"] >= steps["computed"]
    if "flops" in steps:
        # three products per layer, but two for the first: its input needs no gradient
        assert steps["flops"] == steps["computed"] * (3 * 6 - 1) * 2 * 48 * 96 * 96
    if steps["divided"]:
        assert sum(steps["breakdown"].values()) == steps["divided_ns"]
    assert ("why" in steps) == (steps["computed"] < steps["whole"] or steps["divided"] < steps["whole"])
    assert ("why" in compute) != ("attributed" in compute)
